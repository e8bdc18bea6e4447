// The one header for a user's own C++ program: find_package(ddp), and link ddp::worker.
//   ddp::worker::run()   the whole of ddp-worker, with models, tasks, data, losses, metrics,
//                        optimizers and hooks that the program registers: worker/program.h
//   ddp::Context for a training loop of the user's own: worker/user_loop/context.h
#pragma once

#include "worker/program.h"
#include "worker/user_loop/checkpoints.h"
#include "worker/user_loop/context.h"
#include "worker/user_loop/ddp.h"
