// A node that is not node 0 joins the job: finds node 0's agent, proves the token, says Hello and
// takes the answer, with patience, as nodes may be started in any order.
// Promises: all addresses of a name are tried side by side, so a dead one delays nobody; node 0 is
// reached within 2 s of its start; anyone who listens there and is not an agent of ours is named.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/net/control_link.h"
#include "launcher/os/asio.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/secret.h"

namespace ddp::launcher {

struct JoinPlan {
  std::string host;  // of node 0: a name or an address
  int port = 0;
  std::string local_addr;  // an address of this node to connect from; empty: any
  Hello hello;
  Secret token;                             // empty: none
  std::chrono::milliseconds limit{900000};  // for all tries together
};

struct Joined {
  std::shared_ptr<ControlLink> link;  // not started yet
  Welcome welcome;
};

/// Suspends: until node 0 has answered, at most for the plan's limit; `notice` takes a line every
/// 10 s. Errors: SystemError, 202 at the limit, and the code of a Refusal with its text.
asio::awaitable<Joined> join(asio::io_context& io,
                             JoinPlan plan,
                             std::function<void(const std::string&)> notice);

/// For an answer that is there or not: somebody who listens has it in milliseconds.
inline constexpr std::chrono::milliseconds kAskFor{500};

/// One try: what node 0's agent answers, or nothing when none does within `limit`.
asio::awaitable<std::optional<Answer>> ask_once(asio::io_context& io,
                                                JoinPlan plan,
                                                std::chrono::milliseconds limit);

}  // namespace ddp::launcher
