// An error that every rank finds before the ranks have met (an unknown model, say) is printed by
// rank 0 alone. This holds under our launcher, which serves the store, and under srun or mpirun,
// where rank 0 would serve it. Promises: no message is lost. A rank that finds something else, or
// does not hear of rank 0 in five seconds, says its own. Without a launcher of ours, under which
// the first rank that leaves may be the end of the others, none leaves before all have spoken,
// those that would join too; but a rank that starts six seconds after rank 0 has spoken comes too
// late for that.
#pragma once

#include <functional>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

/// `problem` is why this rank does not join; `say` prints it, and is called unless rank 0 finds the
/// same. Returns whether it was called. Blocks: milliseconds when all ranks find it; else at most
/// 12 s (5 until rank 0 answers, 7 until it leaves), 20 s where a launcher serves the store, and
/// what the resolver takes for MASTER_ADDR. Under a launcher a rank that is silent stays until that
/// stops it as the victim of rank 0: it must not be the first to leave. Errors: those of `say`.
bool print_once(const WorkerIdentity& self,
                const std::string& problem,
                const std::function<void()>& say);

}  // namespace ddp::worker
