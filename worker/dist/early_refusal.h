// What every rank finds wrong before the ranks have met, as a model that the program does not have,
// is said by rank 0 alone, too.
#pragma once

#include <string>

#include "common/identity.h"

namespace ddp::worker {

/// `problem` is why this rank does not join. True: rank 0 has found the same and says it, so there
/// is nothing to add. Only where the launcher serves the store, which outlives rank 0: elsewhere,
/// and where rank 0 joins or is not heard of in a few seconds, it is false. Blocks: on rank 0 until
/// the store has it, on others until rank 0 was heard, and then until this rank is stopped as its
/// victim: it must not be the first to leave. Errors: none.
bool is_said_by_rank_0(const WorkerIdentity& self, const std::string& problem);

}  // namespace ddp::worker
