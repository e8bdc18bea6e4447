// Prints an error that every rank finds before the ranks have met (such as an unknown model) on
// rank 0 only. Works under our launcher, which serves the store, and under srun or mpirun, where
// rank 0 would serve it.
// Promises: no message is lost. A rank that found another error, or gets no answer from rank 0
// within five seconds, prints its own. Without our launcher the first rank that exits may end the
// others, so every rank waits until all have reported, even those without an error. A rank that
// starts more than six seconds after rank 0 has printed is too late for that.
#pragma once

#include <functional>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

/// `problem` is why this rank does not join. `print` prints it, and is called unless rank 0 reports
/// the same problem. Returns whether it was called.
/// Blocks: milliseconds if all ranks find the problem. Otherwise at most 12 s (5 until rank 0
/// answers, 7 until it leaves). If an agent serves the store: at most 20 s; in the last 5 of them a
/// rank that did not print waits until the launcher stops it as the victim of rank 0, so that it is
/// not the first to exit. Plus the time to resolve MASTER_ADDR. Errors: those of `print`.
bool print_once(const WorkerIdentity& self,
                const std::string& problem,
                const std::function<void()>& print);

}  // namespace ddp::worker
