// Any node of `ddp-launch doctor` but node 0: tells about itself, and does as it is asked.
#pragma once

#include <memory>

#include "launcher/net/control_link.h"
#include "launcher/os/asio.h"
#include "launcher/plan/doctor/doctor_codec.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// `link` leads to node 0 and has not been started. Suspends: until node 0 has made its diagnosis,
/// which is the result; at most ten minutes between two of its words. Errors: SystemError, 202 when
/// it is gone.
asio::awaitable<DoctorEnd> run_doctor_agent(asio::io_context& io,
                                            const JobSpec& spec,
                                            std::shared_ptr<ControlLink> link);

}  // namespace ddp::launcher
