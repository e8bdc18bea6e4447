// Any node of `ddp-launch doctor` but node 0: describes itself, and runs the checks that node 0
// asks for.
#pragma once

#include <memory>

#include "launcher/net/control_link.h"
#include "launcher/os/asio.h"
#include "launcher/plan/doctor/doctor_codec.h"

namespace ddp::launcher {

/// `health` is of check_node(). `link` leads to node 0 and has not been started. Returns node 0's
/// diagnosis. Suspends: until it arrives, at most ten minutes between two messages. Errors:
/// SystemError, 202 when node 0 is gone.
asio::awaitable<DoctorEnd> run_doctor_agent(asio::io_context& io,
                                            NodeHealth health,
                                            std::shared_ptr<ControlLink> link);

}  // namespace ddp::launcher
