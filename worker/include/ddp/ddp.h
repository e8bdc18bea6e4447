// The one header for a user's own C++ program: find_package(ddp), and link ddp::worker.
//   ddp::worker::run()   the whole of ddp-worker, with models, tasks, data, losses, metrics,
//                        optimizers and hooks that the program registers: worker/program.h
//   ddp::Context for a training loop of the user's own: worker/own_loop/context.h
#pragma once

#include "worker/own_loop/checkpoints.h"
#include "worker/own_loop/context.h"
#include "worker/own_loop/ddp.h"
#include "worker/program.h"
