#include "launcher/run/doctor/doctor.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/program/streams.h"
#include "launcher/plan/round/job_report.h"
#include "launcher/run/doctor/doctor_agent.h"
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

}  // namespace

int run_doctor(JobSpec spec) {
  spec.user_run_id = kDoctorRunId;
  spec.random_user_run_id = false;
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
    asio::co_spawn(io, run_doctor_agent(io, std::move(health), rendezvous.link), keep);
  }
  io.run();
  if (!spec.shares_console || coordinator) print(clean(end.text));
  return end.exit_code;
}

}  // namespace ddp::launcher
