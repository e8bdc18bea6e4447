// What every rank finds wrong before the ranks have met, as a model that the program does not have,
// is said by rank 0 alone, whoever has started them: a launcher that serves the store, or srun,
// mpirun and the like, under which rank 0 would serve it.
// Promises: no message is lost. A rank that finds something else, or does not hear of rank 0 in a
// few seconds, says its own. Without a launcher of ours none of them leaves before all have spoken,
// as mpirun ends the others with the first that fails.
#pragma once

#include <functional>
#include <string>

#include "common/identity.h"

namespace ddp::worker {

/// `problem` is why this rank does not join; `say` says it, and is called unless rank 0 finds the
/// same. Returns whether it was called. Blocks: milliseconds when all ranks find it; else some ten
/// seconds at most, and what the resolver takes for MASTER_ADDR. Under a launcher a rank that is
/// silent stays until that stops it as the victim of rank 0: it must not be the first to leave.
/// Errors: those of `say`.
bool say_once(const WorkerIdentity& self,
              const std::string& problem,
              const std::function<void()>& say);

}  // namespace ddp::worker
