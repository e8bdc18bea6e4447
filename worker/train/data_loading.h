// Loads the data of a job on every rank, into memory once per node, and reports a problem once.
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

/// The data of one rank, and the memory that it shares with its node; null: none.
struct LoadedData {
  Sources sources;
  std::unique_ptr<SharedSet> shared;
};

/// If this rank has loaded the data in an earlier round, it takes the turn of loading for its node.
/// All ranks call it, with a collective between it and load_data(). Errors: PeerError.
void offer_data(const DataJob& job, Group& group, const LoadedData& data);

/// Loads the data on every rank; a rank that has them keeps them. On each node one rank loads
/// first. The others map a built-in set from its memory; of a set of files they find the names in
/// the kernel's cache. No rank waits inside a collective, so loading may take up to six hours, and
/// no rank waits for one of its node that was killed. All ranks know of a problem before any of
/// them leaves.
/// Blocks: until all ranks have loaded theirs. Errors: UsageError; AlreadyReported where another
/// rank reports the problem; PeerError.
void load_data(const Registry& registry,
               const DataJob& job,
               Group& group,
               ProgressPage& page,
               LoadedData& data);

/// Describes what must be equal on all ranks: sets of other lengths would hang in the last step,
/// and other images or labels would be learned without an error.
std::string describe_data(const Sources& data);

/// Refuses a data set of a program's own that ignores the sizes of the job. Errors: UsageError.
void require_sizes(const DataJob& job, const Sources& data);

}  // namespace ddp::worker
