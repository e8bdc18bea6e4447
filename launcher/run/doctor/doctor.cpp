#include "launcher/run/doctor/doctor.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "launcher/run/doctor/assistant.h"
#include "launcher/run/doctor/chief_doctor.h"
#include "launcher/run/rendezvous.h"
#include "launcher/run/report.h"

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
  Rendezvous rendezvous = meet(io, spec);
  std::optional<ChiefDoctor> chief;
  try {
    if (!rendezvous.link) chief.emplace(io, spec, rendezvous.welcome, rendezvous.own);
  } catch (const SystemError&) {
    if (!rendezvous.may_join) throw;
    rendezvous = join_node_zero(io, spec);  // who was faster is node 0
  }
  DoctorEnd end;
  const auto keep = [&end](std::exception_ptr error, DoctorEnd result) {
    rethrow(error);
    end = std::move(result);
  };
  if (chief) {
    asio::co_spawn(io, chief->run(), keep);
  } else {
    asio::co_spawn(io, assist(io, spec, rendezvous.link), keep);
  }
  io.run();
  if (!spec.shares_console || chief) std::cout << clean(end.text) << std::flush;
  return end.exit_code;
}

}  // namespace ddp::launcher
