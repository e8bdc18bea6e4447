// The parts of an agent that its workers use.
#pragma once

#include <functional>

#include "launcher/os/asio.h"
#include "launcher/os/death_watch.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/guard.h"
#include "launcher/os/inbox.h"
#include "launcher/os/job_lock.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/agent_events.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// All outlive the workers.
struct AgentParts {
  asio::io_context& io;
  Inbox<AgentEvent>& inbox;
  DeathWatch& deaths;
  Guard& guard;
  FileWriter& writer;
  Console& console;
  ScratchDir& scratch;
  const JobSpec& spec;
  const JobLock* lock;                               // every worker inherits it; may be null
  std::function<void(const NodeEvent&)> send_event;  // only while the loop runs
};

}  // namespace ddp::launcher
