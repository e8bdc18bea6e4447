// Node 0 that a test controls, over the real protocol, against a real agent of another node: it
// gives the commands that an honest one gives, in any order and at any time. It lives while the
// test waits for something, and sends its heartbeats then.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>

#include "launcher/net/handshake_server.h"
#include "launcher/plan/round/messages.h"

namespace ddp::test {

class FakeNodeZero {
 public:
  /// Listens on a port of the loopback, for one agent of a job of two nodes.
  FakeNodeZero();
  FakeNodeZero(const FakeNodeZero&) = delete;
  FakeNodeZero& operator=(const FakeNodeZero&) = delete;
  ~FakeNodeZero();

  [[nodiscard]] int port() const { return port_; }
  /// Whether an agent has joined by then.
  bool is_joined_within(std::chrono::milliseconds limit);

  void send(const launcher::NodeCommand& command);
  /// The whole job in this round: one worker here that nobody sees, and those of the agent.
  [[nodiscard]] launcher::StartRound start_of(int round) const;
  /// Closes the link.
  void leave();

  /// The next event of that kind; what else comes is dropped. Nothing: the limit has passed.
  template <typename Kind>
  std::optional<Kind> next(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    for (const auto end = launcher::Clock::now() + limit; launcher::Clock::now() < end;) {
      while (!events_.empty()) {
        const launcher::NodeEvent event = std::move(events_.front());
        events_.pop_front();
        if (const auto* const found = std::get_if<Kind>(&event)) return *found;
      }
      live_for(std::chrono::milliseconds(5));
    }
    return {};
  }
  void live_for(std::chrono::milliseconds time);

 private:
  launcher::asio::awaitable<void> accept();
  void meet(const launcher::Hello& hello, std::shared_ptr<launcher::ControlLink> link);

  launcher::asio::io_context io_{1};
  launcher::tcp::acceptor acceptor_;
  int port_ = 0;
  launcher::HandshakeServer handshakes_;
  std::shared_ptr<launcher::ControlLink> link_;
  int workers_ = 0;  // of the agent
  std::deque<launcher::NodeEvent> events_;
  launcher::Clock::time_point next_heartbeat_{};
};

}  // namespace ddp::test
