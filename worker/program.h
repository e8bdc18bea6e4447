// The whole of ddp-worker as one call, so that another program can be a worker with models, data
// sets and losses of its own:
//   int main(int argc, char** argv) {
//     ddp::worker::Registry registry = ddp::worker::built_in();
//     registry.models["tiny"] = [](const ddp::worker::ModelRequest& request) { ... };
//     ddp::worker::run(argc, argv, registry);
//   }
#pragma once

#include "worker/train/registry.h"

namespace ddp::worker {

/// One rank of a job, from its identity to its exit code. Reads the command line and the
/// environment as ddp-worker does, and takes over the signals SIGTERM, SIGINT, SIGHUP, SIGQUIT,
/// SIGUSR1 and SIGUSR2. Call it first thing in main, before any thread is there, once.
/// It ends the process with one of ddp-worker's exit codes, and runs no destructors of libraries:
/// a thread of a group that lost its peer could keep exit() waiting.
[[noreturn]] void run(int argc, char** argv, const Registry& registry = built_in());

}  // namespace ddp::worker
