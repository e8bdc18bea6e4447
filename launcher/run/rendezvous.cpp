#include "launcher/run/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/node/identity.h"
#include "common/version.h"
#include "launcher/net/join.h"
#include "launcher/net/resolver.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/resources.h"
#include "launcher/plan/endpoint_text.h"
#include "launcher/plan/start/node_zero_claim.h"

namespace ddp::launcher {
namespace {

Hello make_hello(const JobSpec& spec) {
  Hello hello;
  hello.version = DDP_VERSION;
  hello.user_run_id = spec.user_run_id;
  hello.node_rank = spec.node_rank;
  hello.min_nodes = spec.min_nodes;
  hello.max_nodes = spec.max_nodes;
  hello.nproc = spec.nproc;
  hello.role = spec.role;
  hello.host = host_name();
  hello.pid = ::getpid();
  hello.entry = spec.entry;
  hello.has_debugger = spec.gives_terminal();
  hello.problem_code = spec.problem_code;
  hello.problem = spec.problem;
  if (spec.takes_job_file) hello.job_keys = job_identity(spec.job, false);
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

/// Runs the coroutine in `io` and returns its result. Nothing else runs there yet, so the loop ends
/// with it. Its exceptions end the program here, before any worker exists.
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

/// A run id in the form of a UUID, as torchrun's random ids have it.
std::string as_uuid(const std::string& id) {
  std::string uuid = id;
  for (const std::size_t dash : {8, 13, 18, 23})
    uuid.insert(dash, "-");
  return uuid;
}

Rendezvous as_node_zero(const JobSpec& spec, Hello hello) {
  Rendezvous rendezvous;
  rendezvous.welcome.run_id = make_id();
  rendezvous.welcome.user_run_id =
      spec.has_random_user_run_id ? as_uuid(rendezvous.welcome.run_id) : spec.user_run_id;
  rendezvous.welcome.host = hello.host;
  rendezvous.own = std::move(hello);
  rendezvous.own.address = spec.master_addr;
  return rendezvous;
}

Rendezvous as_joined(Hello hello, Joined joined) {
  log::info("joined " + joined.welcome.host + " (node 0) at " + joined.link->peer_address() +
            "; waiting for the start");
  Rendezvous rendezvous;
  rendezvous.own = std::move(hello);
  rendezvous.welcome = std::move(joined.welcome);
  rendezvous.link = std::move(joined.link);
  return rendezvous;
}

/// Whether `name` resolves to an address of this node.
bool has_own_address(const std::string& name) {
  const std::vector<asio::ip::address> addresses = resolve_name(name).list;
  return std::ranges::any_of(
      addresses, [](const auto& address) { return is_own_address(address.to_string()); });
}

Rendezvous join_node_zero(asio::io_context& io, const JobSpec& spec) {
  const Hello hello = make_hello(spec);
  const auto notice = [](const std::string& text) { log::info(text); };
  return as_joined(hello, run(io, join(io, plan_join(spec, hello), notice)));
}

}  // namespace

Rendezvous hold_rendezvous(asio::io_context& io, const JobSpec& spec) {
  const Hello hello = make_hello(spec);
  const bool is_own = spec.max_nodes > 1 && has_own_address(spec.master_addr);
  const NodeZeroClaim claim =
      claim_node_zero({spec.max_nodes, spec.node_rank, spec.is_host, is_own});
  if (claim == NodeZeroClaim::alone) return as_node_zero(spec, hello);
  if (claim == NodeZeroClaim::none) return join_node_zero(io, spec);
  // Another agent may already be node 0; then this one is a duplicate or has to join. It is safe to
  // ask: if this agent is to be node 0, nobody answers there yet.
  Hello node_zero_question = hello;
  node_zero_question.problem_code = 0;  // this node sends its problem only when it joins
  const auto answer = run(io, ask_once(io, plan_join(spec, node_zero_question), kAskFor));
  const Refusal* const refusal = answer ? std::get_if<Refusal>(&*answer) : nullptr;
  // It is of another job, or has our node rank. To listen as well would mean to wait for nodes that
  // never come.
  if (refusal != nullptr) throw SystemError(refusal->text, refusal->code);
  if (answer) return join_node_zero(io, spec);
  Rendezvous rendezvous = as_node_zero(spec, hello);
  // The master address is another machine's, where an agent may answer later: the coordinator keeps
  // asking.
  if (!is_own) rendezvous.node_zero_question = plan_join(spec, node_zero_question);
  const auto warn = [](const std::string& text) { log::warning(text); };
  try {
    rendezvous.listeners = listen_for_job(io, spec.master_addr, spec.master_port, true, warn);
  } catch (const PortTaken&) {
    if (claim == NodeZeroClaim::sure) throw;
    log::info(endpoint_text(spec.master_addr, spec.master_port) +
              " is served already: joining the agent that serves it");
    return join_node_zero(io, spec);  // the faster agent is node 0
  }
  return rendezvous;
}

}  // namespace ddp::launcher
