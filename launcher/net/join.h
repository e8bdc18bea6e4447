// A node that is not node 0 joins the job: finds node 0's agent, proves the token, sends Hello and
// takes the answer (both: plan/round/messages). It retries, as nodes may be started in any order.
// Promises: all addresses of a name are tried in parallel, so a dead one delays nothing. Node 0 is
// reached within 2 s of its start. If another program listens there, an error says so.
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
  std::string host;  // node 0's name or address
  int port = 0;
  std::string local_addr;  // own address to connect from; empty: any
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

/// The limit of one question: an agent that listens answers in milliseconds.
inline constexpr std::chrono::milliseconds kAskFor{500};

/// One try. Returns the answer of node 0's agent; nothing: no answer within `limit`.
asio::awaitable<std::optional<Answer>> ask_once(asio::io_context& io,
                                                JoinPlan plan,
                                                std::chrono::milliseconds limit);

}  // namespace ddp::launcher
