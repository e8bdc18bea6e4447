// The one port of a job and its store, over real sockets and without a launcher.
#include "launcher/net/endpoint.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <thread>

#include "common/error.h"
#include "launcher/net/resolver.h"
#include "tests/support/store_client.h"

namespace ddp::launcher {
namespace {

using test::StoreClient;
using test::text;
using test::u64;
using testing::ElementsAre;

/// A client of this node.
StoreServer::Client of(pid_t pid) {
  return {"127.0.0.1", pid};
}

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
                     listen_for_job(io_, "127.0.0.1", 0, false, nullptr),
                     Endpoint::Size()};
  std::thread loop_;
};

std::string opening() {
  return std::string("\0\xce\xf7\x85\x3c", 5);
}

TEST_F(EndpointTest, ConnectionsOfTheLastRoundAreClosed) {
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
  EXPECT_THAT(ask([this] { return store_.joined(); }), ElementsAre(of(17), of(18)));
  const int port = endpoint_.port();
  ask([this] { endpoint_.begin_round(); });
  EXPECT_TRUE(old.is_closed_within());
  EXPECT_TRUE(waiting.is_closed_within());
  StoreClient fresh(port, true, 19);
  EXPECT_EQ(fresh.get("key"), "");
  EXPECT_EQ(endpoint_.port(), port);
  EXPECT_THAT(ask([this] { return store_.joined(); }), ElementsAre(of(19)));
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
  EXPECT_EQ(waiting[0].client, of(8));
  EXPECT_EQ(waiting[0].key, "never");
  EXPECT_THAT(ask([this] { return store_.connected(); }), ElementsAre(of(7), of(8)));
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

TEST_F(EndpointTest, AnAgentIsHandedOnWithItsFirstBytes) {
  std::vector<tcp::socket> agents;
  std::string first_bytes;
  std::string source;
  endpoint_.serve_agents(
      [&](tcp::socket socket, const std::string& bytes, const std::string& whose) {
        agents.push_back(std::move(socket));
        first_bytes += bytes;
        source = whose;
      });
  serve();
  StoreClient agent(endpoint_.port(), false);
  agent.send("\xdd");
  StoreClient client(endpoint_.port());  // the store is served beside it
  client.set("key", "value");
  EXPECT_EQ(client.get("key"), "value");
  StoreClient old(endpoint_.port(), false);  // of torch 1.x, which is not an agent
  old.send(std::string("\x03") + text("key"));
  EXPECT_TRUE(old.is_closed_within());
  ask([&] {
    EXPECT_EQ(first_bytes, "\xdd");
    EXPECT_EQ(source, "user " + std::to_string(::geteuid()));
    ASSERT_EQ(agents.size(), 1U);
    agents[0].send(asio::buffer("hi", 2));
    agents.clear();
  });
  EXPECT_EQ(agent.receive(2), "hi");
  EXPECT_EQ(ask([this] { return endpoint_.unknown_peers(); }), 0U);
}

TEST(Store, A4_AClientThatAsksForNothingIsClosedInTime) {
  using namespace std::chrono_literals;
  asio::io_context io(1);
  const auto unheard = [](const std::string&) {};
  StoreServer store(io, unheard, 300ms);
  Endpoint endpoint(io, store, unheard, listen_for_job(io, "127.0.0.1", 0, false, unheard), {});
  endpoint.start();
  std::thread loop([&io] { io.run(); });
  StoreClient good(endpoint.port());
  const auto begin = Clock::now();
  StoreClient idle(endpoint.port(), false);
  idle.send(opening());
  StoreClient half(endpoint.port(), false);
  half.send(opening() + "\x01" + u64(3) + "k");
  EXPECT_TRUE(idle.is_closed_within(5s));
  EXPECT_TRUE(half.is_closed_within(5s));
  EXPECT_GE(Clock::now() - begin, 300ms);
  good.set("silent", "for as long as it likes");
  EXPECT_EQ(good.get("silent"), "for as long as it likes");
  asio::post(io, asio::use_future([&endpoint] { endpoint.close(); })).get();
  loop.join();
}

TEST_F(EndpointTest, WhileTheStoreIsHeldItsClientsWait) {
  serve();
  ask([this] { endpoint_.hold(); });
  StoreClient client(endpoint_.port(), false);
  client.send(opening() + "\x0d" + "ping");
  EXPECT_EQ(client.receive(1, std::chrono::milliseconds(200)), "");
  ask([this] { endpoint_.release(); });
  EXPECT_EQ(client.receive(4), "ping");
  StoreClient next(endpoint_.port());
  ask([this] { endpoint_.hold(); });
  next.set("served", "on");  // who is in stays in
  EXPECT_EQ(next.get("served"), "on");
  StoreClient waiting(endpoint_.port(), false);
  waiting.send(opening());
  EXPECT_EQ(waiting.receive(1, std::chrono::milliseconds(200)), "");  // so it is one that waits
  ask([this] { endpoint_.begin_round(); });
  EXPECT_TRUE(waiting.is_closed_within());
}

/// What an endpoint for several nodes says of `address`, and whether it serves loopback.
std::string notice_of(const std::string& address) {
  asio::io_context io;
  std::string notices;
  const auto notice = [&notices](const std::string& text) { notices += text; };
  StoreServer store(io, notice);
  Endpoint endpoint(io, store, notice, listen_for_job(io, address, 0, true, notice), {2, 2});
  StoreClient client(endpoint.port(), false);
  endpoint.close();
  return notices;
}

// Case N8: others cannot reach the address of node 0.
TEST(Endpoint, OnlyLocalhostAndItsNumbersAreForThisMachineAlone) {
  for (const char* const name : {"localhost", "127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_for_this_machine(name)) << name;
  for (const char* const name : {"10.0.0.1", "0.0.0.0", "node0", "localhost.example.org", "::", ""})
    EXPECT_FALSE(is_for_this_machine(name)) << name;
}

TEST(Endpoint, N8_AnAddressThatIsNotItsOwnMakesItListenEverywhere) {
  EXPECT_EQ(notice_of("127.0.0.1"), "");
  EXPECT_EQ(notice_of("localhost"), "");
  EXPECT_EQ(notice_of("::1"), "");
  EXPECT_THAT(notice_of("198.51.100.1"),
              testing::HasSubstr("198.51.100.1 is not one of this node's"));
  EXPECT_THAT(notice_of("198.51.100.1"), testing::HasSubstr("listening at all"));
  EXPECT_THAT(notice_of("no.such.name.invalid"), testing::HasSubstr("has no address here"));
}

// Case N8: a host's own name may stand for loopback there, which is decided by its /etc/hosts.
TEST(Endpoint, N8_ANameThatStandsForLoopbackIsExplained) {
  char name[256] = "";
  ASSERT_EQ(::gethostname(name, sizeof name), 0);
  asio::io_context io;
  tcp::resolver resolver(io);
  boost::system::error_code error;
  const auto found = resolver.resolve(name, "", error);
  const bool is_loopback = !error && std::all_of(found.begin(), found.end(), [](const auto& entry) {
    return entry.endpoint().address().is_loopback();
  });
  const std::string notice = notice_of(name);
  EXPECT_EQ(notice.find("stands for 127.") != std::string::npos ||
                notice.find("stands for ::1") != std::string::npos,
            is_loopback && name != std::string("localhost"))
      << notice;
}

TEST(Endpoint, TwoOfThemHaveTwoPortsAndOneFixedPortIsRefused) {
  asio::io_context io;
  const auto notice = [](const std::string&) {};
  StoreServer store(io, notice);
  const auto listen = [&](const std::string& address, int port) {
    return listen_for_job(io, address, port, false, notice);
  };
  const Endpoint one(io, store, notice, listen("127.0.0.1", 0), {});
  const Endpoint two(io, store, notice, listen("localhost", 0), {});
  EXPECT_NE(one.port(), two.port());
  try {
    const Endpoint three(io, store, notice, listen("127.0.0.1", one.port()), {});
    FAIL() << "it listens twice";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.code(), exit_code::kRendezvous);
    EXPECT_THAT(error.what(), testing::HasSubstr("held by pid " + std::to_string(::getpid())));
  }
}

}  // namespace
}  // namespace ddp::launcher
