#include "launcher/run/membership.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/net/join.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/resources.h"

namespace ddp::launcher {
namespace {

constexpr int kRunIdBytes = 16;
constexpr std::chrono::milliseconds kAskFor(500);  // whether node 0 is there already

Hello say_hello(const JobSpec& spec) {
  Hello hello;
  hello.version = DDP_VERSION;
  hello.user_run_id = spec.user_run_id;
  hello.node_rank = spec.node_rank;
  hello.min_nodes = spec.min_nodes;
  hello.max_nodes = spec.max_nodes;
  hello.nproc = spec.nproc;
  hello.host = host_name();
  hello.pid = ::getpid();
  hello.entry = spec.entry;
  if (spec.own_worker) hello.job_keys = job_identity(spec.job, false);
  return hello;
}

JoinPlan plan_join(const JobSpec& spec, const Hello& hello) {
  JoinPlan plan;
  plan.host = spec.master_addr;
  plan.port = spec.master_port;
  plan.local_addr = spec.local_addr;
  plan.hello = hello;
  plan.token = spec.token;
  plan.limit = spec.join_timeout;
  return plan;
}

/// What the coroutine returns, once it has run in `io`.
template <typename Result>
Result run(asio::io_context& io, asio::awaitable<Result> work) {
  std::optional<Result> result;
  std::exception_ptr failure;
  asio::co_spawn(io, std::move(work), [&](std::exception_ptr error, Result value) {
    failure = error;
    if (!error) result = std::move(value);
  });
  io.restart();
  io.run();
  io.restart();
  if (failure) std::rethrow_exception(failure);
  return std::move(*result);
}

Membership as_node_zero(const JobSpec& spec, Hello hello) {
  Membership membership;
  membership.welcome.run_id = random_hex(kRunIdBytes);
  membership.welcome.user_run_id =
      spec.random_user_run_id ? membership.welcome.run_id : spec.user_run_id;
  membership.welcome.host = hello.host;
  membership.own = std::move(hello);
  return membership;
}

Membership as_joined(Hello hello, Joined joined) {
  log::info("joined " + joined.welcome.host + " (node 0) at " + joined.link->peer_address() +
            "; waiting for the start");
  return Membership{std::move(hello), std::move(joined.welcome), std::move(joined.link)};
}

}  // namespace

Membership find_membership(asio::io_context& io, const JobSpec& spec) {
  Hello hello = say_hello(spec);
  if (spec.max_nodes == 1) return as_node_zero(spec, std::move(hello));
  const auto notice = [](const std::string& text) { log::info(text); };
  const bool is_own = is_own_name(spec.master_addr);
  const bool says_zero = spec.node_rank == 0 || (!spec.node_rank && spec.is_host == true);
  const bool says_other = (spec.node_rank && *spec.node_rank > 0) || spec.is_host == false;
  if (says_other || (!says_zero && !is_own)) {
    return as_joined(hello, run(io, join(io, plan_join(spec, hello), notice)));
  }
  // Somebody may be node 0 already: then we were started as a second one, or, without a rank of our
  // own, are to join. That we ask does no harm: nobody answers at a port that is ours to be.
  JoinPlan plan = plan_join(spec, hello);
  plan.limit = kAskFor;
  if (std::optional<Joined> joined = run(io, ask_once(io, plan))) {
    return as_joined(hello, std::move(*joined));
  }
  return as_node_zero(spec, std::move(hello));
}

}  // namespace ddp::launcher
