#include "launcher/run/doctor/doctor.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/cli/streams.h"
#include "common/error.h"
#include "launcher/net/control_link.h"
#include "launcher/net/peer_check.h"
#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/doctor/doctor_codec.h"
#include "launcher/plan/round/job_report.h"
#include "launcher/run/doctor/doctor_coordinator.h"
#include "launcher/run/doctor/node_checks.h"
#include "launcher/run/rendezvous.h"

namespace ddp::launcher {
namespace {

Rendezvous meet(asio::io_context& io, const JobSpec& spec) {
  try {
    return hold_rendezvous(io, spec);
  } catch (const SystemError& error) {
    if (error.code() != exit_code::kRefused) throw;
    throw SystemError(std::string(error.what()) +
                          " This is ddp-launch doctor: start it on all nodes, before the job.",
                      exit_code::kRefused);
  }
}

constexpr std::chrono::seconds kCommandWait(600);

struct LinkLost {
  std::string how;
};

/// Any node but node 0: runs the checks that node 0 asks for. `health` is of check_node(). `link`
/// leads to node 0 and has not been started. Returns node 0's diagnosis. Suspends: until it
/// arrives, at most ten minutes between two messages. Errors: SystemError, 202 when node 0 is gone.
asio::awaitable<DoctorEnd> follow_node_zero(asio::io_context& io,
                                            NodeHealth health,
                                            std::shared_ptr<ControlLink> link) {
  using Event = std::variant<DoctorMessage, LinkLost>;
  Inbox<Event> inbox(io);
  PeerListener listener(io, link->own_address());
  listener.start();
  health.address = link->own_address();
  health.port = listener.port();
  link->start(
      [&inbox](std::string_view frame) {
        std::optional<DoctorMessage> message = decode_doctor(frame);
        if (message) inbox.push(std::move(*message));
        return message.has_value();
      },
      [&inbox](const std::string& how) { inbox.push(LinkLost{how}); });
  link->send(encode(DoctorMessage(health)));
  std::string how = "it says nothing";
  while (true) {
    const std::optional<Event> event = co_await inbox.next(Clock::now() + kCommandWait);
    const auto* const message = event ? std::get_if<DoctorMessage>(&*event) : nullptr;
    if (message == nullptr) {
      if (event) how = std::get<LinkLost>(*event).how;
      break;
    }
    const auto* const end = std::get_if<DoctorEnd>(message);
    if (end != nullptr) {
      link->close();
      listener.close();
      co_return *end;
    }
    const auto* const task = std::get_if<CheckPeers>(message);
    if (task == nullptr) continue;
    NodeChecks checks = co_await check_peers(io, *task);
    link->send(encode(DoctorMessage(std::move(checks))));
  }
  link->close();
  throw SystemError("node 0's doctor at " + link->peer_address() + " is gone: " + how +
                        ". See what it printed there.",
                    exit_code::kRendezvous);
}

}  // namespace

int run_doctor(JobSpec spec) {
  spec.user_run_id = kDoctorRunId;
  spec.has_random_user_run_id = false;
  spec.join_timeout = std::min<std::chrono::milliseconds>(spec.join_timeout, kDoctorPatience);
  asio::io_context io(1);
  // Before the nodes meet, as it blocks for long: they expect answers of each other then.
  NodeHealth health = check_node(spec);
  Rendezvous rendezvous = meet(io, spec);
  if (!rendezvous.link && spec.problem_code != 0)
    throw SystemError(spec.problem, spec.problem_code);
  std::optional<DoctorCoordinator> coordinator;
  if (!rendezvous.link) coordinator.emplace(io, spec, rendezvous, std::move(health));
  DoctorEnd end;
  const auto keep = [&end](std::exception_ptr error, DoctorEnd result) {
    rethrow(error);
    end = std::move(result);
  };
  if (coordinator) {
    asio::co_spawn(io, coordinator->run(), keep);
  } else {
    asio::co_spawn(io, follow_node_zero(io, std::move(health), rendezvous.link), keep);
  }
  io.run();
  if (!spec.shares_console || coordinator) print(clean_report(end.text));
  return end.exit_code;
}

}  // namespace ddp::launcher
