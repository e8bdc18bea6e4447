// Rank 0 alone prints an error that every rank finds before the ranks have met (an unknown model,
// say). This works under our launcher, which serves the store, and under srun or mpirun, where rank
// 0 would serve it.
// Promises: no message is lost. A rank that found another error, or gets no answer from rank 0 in
// five seconds, prints its own. Without our launcher the first rank that leaves may end the others,
// so none leaves before all have reported, those that would join included. A rank that starts more
// than six seconds after rank 0 has printed is too late for that.
#pragma once

#include <functional>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

/// `problem` is why this rank does not join. `say` prints it, and is called unless rank 0 reports
/// the same problem. Returns whether it was called.
/// Blocks: milliseconds when all ranks find the problem; else at most 12 s (5 until rank 0 answers,
/// 7 until it leaves), 20 s where a launcher serves the store; and the time to resolve MASTER_ADDR.
/// Under a launcher a rank that did not print stays up to 5 s more, until the launcher stops it as
/// the victim of rank 0: it must not be the first to leave. Errors: those of `say`.
bool print_once(const WorkerIdentity& self,
                const std::string& problem,
                const std::function<void()>& say);

}  // namespace ddp::worker
