// Makes the template of this node's ranks, before the first round (--preload, launch.warm_start).
// If it cannot be made, one line says so (with launch.warm_start: auto only a debug line), and the
// ranks are started without it.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "launcher/os/rank_template.h"
#include "launcher/plan/round/node_commands.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/placement.h"
#include "launcher/run/agent_events.h"
#include "launcher/run/console.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

/// The parts of the agent that are used. All outlive the call.
struct PreloadParts {
  asio::io_context& io;
  Inbox<AgentEvent>& inbox;
  Console& console;
  WorkerGroup& group;
  const JobSpec& spec;
  std::filesystem::path scratch_place;  // of all jobs of this user
  const NodeCommands& commands;
  bool has_debugger = false;  // a rank of the job (--debug)
};

/// `ranks`: those of this node. Ranks with a wrapper are not copied, and with --debug none is.
/// Null: there is no template. Suspends: until it is ready, unfit or stopped, at most kImportLimit
/// (for ddp-worker kLoadLimit), or until `commands` end the round.
asio::awaitable<std::shared_ptr<RankTemplate>> make_template(PreloadParts parts,
                                                             std::vector<Placement> ranks);

/// How long the imports may take.
inline constexpr std::chrono::minutes kImportLimit{5};
inline constexpr std::chrono::minutes kLoadLimit{1};  // of ddp-worker

}  // namespace ddp::launcher
