// Loads the data of a job on every rank: once per node in memory, and a problem is reported once.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/progress/progress_page.h"
#include "worker/data/sets/shared_set.h"
#include "worker/data/source.h"
#include "worker/dist/group.h"
#include "worker/plan/job.h"
#include "worker/train/registry.h"

namespace ddp::worker {

/// The data of one rank, and what of it the node shares; null: nothing.
struct LoadedData {
  Sources sources;
  std::unique_ptr<SharedSet> shared;
};

/// Takes the turn of loading for its node, where this rank has loaded the data in an earlier round.
/// Called by all ranks with a collective between it and load_data(). Errors: PeerError.
void offer_data(const DataJob& job, Group& group, const LoadedData& data);

/// Loads the data on every rank; one that has them keeps them. On each node one rank loads first.
/// The others map a built-in set from its memory; of a set of files they find the names in the
/// kernel's cache. No rank waits inside a collective, so loading may take any time, and none waits
/// for a rank of its node that was killed. A problem is known to all before anyone leaves. Blocks:
/// until all ranks have loaded theirs. Errors: UsageError; Refused where another rank says what is
/// wrong; PeerError.
void load_data(const Registry& registry,
               const DataJob& job,
               Group& group,
               ProgressPage& page,
               LoadedData& data);

/// What must be equal on all ranks: sets of other lengths would hang in the last step, and other
/// images or labels be learned without a word.
std::string describe_data(const Sources& data);

/// A program's own data set may overlook what the job asks for. Errors: UsageError.
void require_sizes(const DataJob& job, const Sources& data);

}  // namespace ddp::worker
