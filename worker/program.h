// ddp-worker as one function, so that a user's program can be a worker with its own models, data
// sets and losses:
//   int main(int argc, char** argv) {
//     ddp::worker::Registry registry = ddp::worker::built_in();
//     registry.models["tiny"] = [](const ddp::worker::ModelRequest& request) { ... };
//     ddp::worker::run(argc, argv, registry);
//   }
#pragma once

#include "worker/train/registry.h"

namespace ddp::worker {

/// Runs one rank of a job. Reads the command line and the environment as ddp-worker does, and
/// handles the signals SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2. Call it once, first
/// in main, before any other thread exists.
/// It ends the process with one of ddp-worker's exit codes, without running destructors of
/// libraries: exit() could wait forever for a thread whose peer is lost.
[[noreturn]] void run(int argc, char** argv, const Registry& registry = built_in());

}  // namespace ddp::worker
