// A node that a test controls over the real protocol, against a real agent of node 0: it says what
// an honest node says, or what none would. It lives while the test waits for something, and sends
// its heartbeats then.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "launcher/net/join.h"
#include "launcher/plan/round/messages.h"

namespace ddp::test {

/// A port of this machine's loopback that is free now.
int free_port();

class FakeNode {
 public:
  /// Joins the agent on that port of the loopback, as a node of two. Errors: what join() throws.
  explicit FakeNode(int port, int workers = 1);
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;
  ~FakeNode();

  void send(const launcher::NodeEvent& event);
  /// The event of a worker that has ended.
  [[nodiscard]] launcher::WorkerEnded exited(int round,
                                             int local_rank,
                                             launcher::ExitStatus status) const;
  /// The event of a group that has ended: each worker with `status`.
  [[nodiscard]] launcher::GroupEnded group_ended(int round, launcher::ExitStatus status) const;

  /// The next command of that kind; what else comes is dropped. Nothing: the limit has passed, or
  /// the link is gone.
  template <typename Kind>
  std::optional<Kind> next(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    const auto end = launcher::Clock::now() + limit;
    while (launcher::Clock::now() < end) {
      while (!commands_.empty()) {
        const launcher::NodeCommand command = std::move(commands_.front());
        commands_.pop_front();
        if (const auto* const found = std::get_if<Kind>(&command)) return *found;
      }
      if (!why_gone_.empty()) return {};
      live_for(std::chrono::milliseconds(10));
    }
    return {};
  }
  void live_for(std::chrono::milliseconds time);
  /// Whether node 0 has dropped us by then.
  bool is_gone_within(std::chrono::milliseconds limit);

 private:
  launcher::asio::awaitable<void> enter(launcher::JoinPlan plan);

  int workers_;
  int rank_ = 1;
  launcher::asio::io_context io_{1};
  std::shared_ptr<launcher::ControlLink> link_;
  std::deque<launcher::NodeCommand> commands_;
  std::string why_gone_;
  launcher::Clock::time_point next_heartbeat_{};
  std::optional<launcher::Heartbeat> heard_;
  launcher::Clock::time_point heard_at_{};
  launcher::Clock::time_point began_{};
};

}  // namespace ddp::test
