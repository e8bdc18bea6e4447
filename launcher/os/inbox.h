// The queue into which sources push events, and in which the run loop waits for the next one. One
// thread, so no lock. `push` never waits; the number of possible events bounds the queue.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "launcher/os/asio.h"

namespace ddp::launcher {

template <typename Event>
class Inbox {
 public:
  explicit Inbox(asio::io_context& io) : timer_(io) {}

  void push(Event event) {
    events_.push_back(std::move(event));
    timer_.cancel();
  }

  /// The next event, or nothing once `deadline` has passed. Queued events are returned even after
  /// the deadline.
  asio::awaitable<std::optional<Event>> next(Deadline deadline) {
    while (events_.empty()) {
      if (Clock::now() >= deadline) co_return std::nullopt;
      timer_.expires_at(deadline);
      co_await timer_.async_wait(kResult);
    }
    std::optional<Event> event(std::move(events_.front()));
    events_.pop_front();
    co_return event;
  }

 private:
  std::deque<Event> events_;
  asio::steady_timer timer_;
};

}  // namespace ddp::launcher
