// Node 0's side of the first words between two agents, and who comes to it, over real sockets.
#pragma once

#include <gmock/gmock.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "launcher/net/auth.h"
#include "launcher/net/handshake_server.h"
#include "launcher/net/join.h"
#include "launcher/plan/wire/message_codec.h"

namespace ddp::launcher {

inline constexpr std::chrono::seconds kLimit{20};
inline const std::string kToken(64, 't');

inline Hello a_hello() {
  Hello hello;
  hello.version = "1";
  hello.host = "b";
  hello.node_rank = 1;
  return hello;
}

/// A client of any bytes, which does not wait.
class RawClient {
 public:
  RawClient(asio::io_context& io, const tcp::endpoint& at) : socket_(io) {
    socket_.connect(at);
    socket_.non_blocking(true);
  }
  void send(const std::string& bytes) {
    boost::system::error_code ignored;  // it may have been closed
    asio::mutable_buffer unused;
    socket_.send(asio::buffer(bytes), 0, ignored);
  }
  void send_frame(const std::string& payload) { send(frame_head(payload.size()) + payload); }
  /// Takes what is there.
  void look() {
    std::array<char, 4096> bytes;
    boost::system::error_code error;
    const std::size_t size = socket_.receive(asio::buffer(bytes), 0, error);
    received_.append(bytes.data(), size);
    is_closed_ = is_closed_ || (error && error != asio::error::would_block);
  }
  [[nodiscard]] bool is_closed() {
    look();
    return is_closed_;
  }
  /// The first frame that came; empty while it is not whole.
  [[nodiscard]] std::string frame() {
    look();
    FrameDecoder decoder;
    decoder.feed(received_);
    return std::string(decoder.next().value_or(""));
  }
  void forget_frame() { received_.erase(0, kFrameHeadBytes + frame().size()); }
  [[nodiscard]] std::string refusal() {
    const std::optional<Answer> answer = decode_answer(frame());
    return answer && std::holds_alternative<Refusal>(*answer) ? std::get<Refusal>(*answer).text
                                                              : "";
  }

 private:
  tcp::socket socket_;
  std::string received_;
  bool is_closed_ = false;
};

class HandshakeServerTest : public testing::Test {
 protected:
  /// Node 0: everybody who comes is taken by one server, and a Hello is answered by a Welcome.
  void open(const std::string& token, int nodes = 2, asio::ip::address at = kLoopback) {
    handshakes_.emplace(
        io_,
        token,
        nodes,
        [this](const std::string& line) { lines_.push_back(line); },
        [this](const Hello& hello, const std::shared_ptr<ControlLink>& link) {
          hellos_.push_back(hello);
          links_.push_back(link);
          link->send(encode(Welcome{"r1", "none", "a"}));
        });
    acceptor_.emplace(io_, tcp::endpoint(at, 0));
    take_next();
  }
  void take_next() {
    acceptor_->async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (error) return;
      handshakes_->admit(std::move(socket), "", source_);
      take_next();
    });
  }
  void TearDown() override {
    if (handshakes_) {
      handshakes_->close();
      acceptor_->close();
    }
    for (const auto& link : links_)
      link->close();
    turn_for(kLimit);
    EXPECT_TRUE(io_.stopped()) << "something is still under way";
  }

  template <typename Done>
  bool turn_until(Done done) {
    const Deadline deadline = Clock::now() + kLimit;
    while (!done() && Clock::now() < deadline)
      turn_for(std::chrono::milliseconds(2));
    return done();
  }
  void turn_for(std::chrono::milliseconds time) {
    io_.restart();
    io_.run_for(time);
  }

  [[nodiscard]] RawClient peer() { return RawClient(io_, acceptor_->local_endpoint()); }

  [[nodiscard]] JoinPlan plan(const std::string& token) {
    JoinPlan plan;
    plan.host = acceptor_->local_endpoint().address().to_string();
    plan.port = acceptor_->local_endpoint().port();
    plan.hello = a_hello();
    plan.token = token;
    plan.limit = kLimit;
    return plan;
  }
  /// A node joins; what it ends by is in joined_ or error_.
  void join_by(JoinPlan plan) {
    asio::co_spawn(
        io_,
        join(io_, std::move(plan), [this](const std::string& line) { lines_.push_back(line); }),
        [this](std::exception_ptr error, Joined joined) {
          is_joined_ = true;
          joined_ = std::move(joined);
          try {
            rethrow(error);
          } catch (const Error& refused) {
            error_ = refused.what();
            code_ = refused.code();
          }
        });
  }
  void expect_refused(const std::string& text) {
    ASSERT_TRUE(turn_until([this] { return is_joined_; }));
    EXPECT_EQ(code_, exit_code::kRefused);
    EXPECT_THAT(error_, testing::HasSubstr(text));
    EXPECT_THAT(hellos_, testing::IsEmpty());
  }

  static inline const asio::ip::address kLoopback = asio::ip::address_v4::loopback();
  asio::io_context io_{1};
  std::optional<HandshakeServer> handshakes_;
  std::string source_ = "somebody";  // of who comes next
  std::optional<tcp::acceptor> acceptor_;
  std::vector<std::string> lines_;
  std::vector<Hello> hellos_;
  std::vector<std::shared_ptr<ControlLink>> links_;
  bool is_joined_ = false;
  Joined joined_;
  std::string error_;
  int code_ = 0;
};

}  // namespace ddp::launcher
