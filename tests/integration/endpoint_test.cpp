// The one port of a job and its store, over real sockets and without a launcher.
#include "launcher/net/endpoint.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <thread>

#include "common/error.h"
#include "tests/support/store_client.h"

namespace ddp::launcher {
namespace {

using test::StoreClient;
using test::text;
using test::u64;
using testing::ElementsAre;

class EndpointTest : public testing::Test {
 protected:
  /// Serves from now on, in a thread of its own.
  void serve() {
    endpoint_.start();
    loop_ = std::thread([this] { io_.run(); });
  }
  /// In the loop's thread, as everything that touches the store.
  template <typename Function>
  auto ask(Function function) {
    return asio::post(io_, asio::use_future(std::move(function))).get();
  }
  ~EndpointTest() override {
    if (!loop_.joinable()) return;
    ask([this] { endpoint_.close(); });
    loop_.join();  // nothing is left to do
  }

  std::vector<std::string> notices_;
  asio::io_context io_{1};
  StoreServer store_{io_, [this](const std::string& text) { notices_.push_back(text); }};
  Endpoint endpoint_{io_,
                     store_,
                     [this](const std::string& text) { notices_.push_back(text); },
                     Endpoint::Place{"127.0.0.1", 0, 1}};
  std::thread loop_;
};

std::string opening() {
  return std::string("\0\xce\xf7\x85\x3c", 5);
}

TEST_F(EndpointTest, WhatTheDeadHaveLeftBehindIsOfNoRound) {
  {
    StoreClient dead(endpoint_.port(), false);
    dead.send(opening() + "\x01" + text("key") + text("of the last round"));
  }
  endpoint_.begin_round();
  serve();
  StoreClient client(endpoint_.port());
  EXPECT_EQ(client.get("key"), "");
}

TEST_F(EndpointTest, ARoundIsEmptyAndItsConnectionsAreNew) {
  serve();
  StoreClient old(endpoint_.port(), true, 17);
  StoreClient waiting(endpoint_.port(), true, 18);
  waiting.send("\x06" + u64(1) + text("never"));
  old.set("key", "value");
  EXPECT_EQ(old.get("key"), "value");
  EXPECT_THAT(ask([this] { return store_.joined(); }), ElementsAre(17, 18));
  const int port = endpoint_.port();
  ask([this] { endpoint_.begin_round(); });
  EXPECT_TRUE(old.is_closed_within());
  EXPECT_TRUE(waiting.is_closed_within());
  StoreClient fresh(port, true, 19);
  EXPECT_EQ(fresh.get("key"), "");
  EXPECT_EQ(endpoint_.port(), port);
  EXPECT_THAT(ask([this] { return store_.joined(); }), ElementsAre(19));
  EXPECT_THAT(ask([this] { return store_.waiting(); }), testing::IsEmpty());
}

TEST_F(EndpointTest, TellsWhoIsThereAndWhoWaitsForWhat) {
  serve();
  StoreClient first(endpoint_.port(), true, 7);
  StoreClient second(endpoint_.port(), true, 8);
  first.set("there", "");
  second.send("\x06" + u64(2) + text("there") + text("never"));
  second.send("\x0d" + std::string(4, 'p'));
  EXPECT_EQ(second.receive(4), "pppp");  // so the wait has begun
  const auto waiting = ask([this] { return store_.waiting(); });
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].pid, 8);
  EXPECT_EQ(waiting[0].key, "never");
  EXPECT_THAT(ask([this] { return store_.connected(); }), ElementsAre(7, 8));
  first.set("never", "after all");
  EXPECT_EQ(second.receive(1), std::string(1, '\0'));
  EXPECT_THAT(ask([this] { return store_.waiting(); }), testing::IsEmpty());
}

TEST_F(EndpointTest, AClientIsServedAtBothLoopbackAddresses) {
  serve();
  tcp::socket socket(io_);
  boost::system::error_code error;
  socket.connect(
      tcp::endpoint(asio::ip::address_v6::loopback(), static_cast<std::uint16_t>(endpoint_.port())),
      error);
  if (error == asio::error::address_family_not_supported) GTEST_SKIP() << "no IPv6";
  ASSERT_FALSE(error) << error.message();
}

TEST_F(EndpointTest, TheStoreEndsWithItsClientsConnected) {
  serve();
  StoreClient silent(endpoint_.port(), false);
  StoreClient client(endpoint_.port());
  client.send("\x06" + u64(1) + text("never"));
  ask([this] { endpoint_.close(); });
  loop_.join();
  EXPECT_TRUE(silent.is_closed_within());
  EXPECT_TRUE(client.is_closed_within());
}

TEST(Endpoint, TwoOfThemHaveTwoPortsAndOneFixedPortIsRefused) {
  asio::io_context io;
  const auto notice = [](const std::string&) {};
  StoreServer store(io, notice);
  const Endpoint one(io, store, notice, {"127.0.0.1", 0, 1});
  const Endpoint two(io, store, notice, {"localhost", 0, 1});
  EXPECT_NE(one.port(), two.port());
  try {
    const Endpoint three(io, store, notice, {"127.0.0.1", one.port(), 1});
    FAIL() << "it listens twice";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.code(), exit_code::kRendezvous);
    EXPECT_THAT(error.what(), testing::HasSubstr("held by pid " + std::to_string(::getpid())));
  }
}

}  // namespace
}  // namespace ddp::launcher
