// Everything that can happen to an agent, one struct each. Sources push them and decide nothing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <variant>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/start/gpu_memory.h"
#include "launcher/plan/start/template_messages.h"

namespace ddp::launcher {

struct WorkerExited {
  std::size_t index = 0;  // into the group
  ExitStatus status;
  Clock::time_point at;
};
struct WorkerDying {  // it has failed; the kernel still frees what it had
  std::size_t index = 0;
  pid_t pid = 0;
  ExitStatus status;
  Clock::time_point at;
};
struct OutputEnded {};      // one stream of one worker is drained
struct SigchldReceived {};  // SIGCHLD: an adopted orphan may have ended
struct SignalReceived {
  int signal = 0;
  bool stops = false;  // it stops the job; else it is passed on
  Clock::time_point at;
};
struct KillCommanded {};    // node 0 commands SIGKILL
struct CommandReceived {};  // from node 0, or its loss; already noted
struct GpuHoldersReported {
  std::vector<GpuHolder> holders;
};

struct TemplateReported {
  TemplateMessage message;
};

using AgentEvent = std::variant<WorkerExited,
                                WorkerDying,
                                OutputEnded,
                                SigchldReceived,
                                SignalReceived,
                                KillCommanded,
                                CommandReceived,
                                GpuHoldersReported,
                                TemplateReported>;

}  // namespace ddp::launcher
