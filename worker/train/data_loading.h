// Loads the data of a job on every rank; into memory only once per node. Reports a problem once.
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

/// The data of one rank, and the memory that it shares with other ranks of its node; null: none.
struct LoadedData {
  Sources sources;
  std::unique_ptr<SharedSet> shared;
};

/// Makes this rank the loading leader of its node if it still has the data from an earlier round.
/// All ranks call it, with a collective between it and load_data(). Errors: PeerError.
void offer_data(const DataJob& job, Group& group, const LoadedData& data);

/// Loads the data on every rank that does not have them yet. On each node one rank, the leader,
/// loads first. The others then map a built-in set from its memory, or find the directories of
/// files in the kernel's cache. No rank waits inside a collective, so loading may take up to six
/// hours; and a rank notices when another one of its node was killed. All ranks know of a problem
/// before any of them exits.
/// Blocks: until all ranks have loaded theirs. Errors: UsageError; AlreadyReported where another
/// rank reports the problem; PeerError.
void load_data(const Registry& registry,
               const DataJob& job,
               Group& group,
               ProgressPage& page,
               LoadedData& data);

/// Describes what must be equal on all ranks: sets of different lengths would hang in the last
/// step, and different images or labels would go unnoticed.
std::string describe_data(const Sources& data);

/// Says how many files beside the images were left out; empty: none. Nodes may have different ones.
std::string describe_left_out(const Sources& data);

/// Refuses a user's own data set that ignores data.train_size or data.test_size. Errors:
/// UsageError.
void require_sizes(const DataJob& job, const Sources& data);

}  // namespace ddp::worker
