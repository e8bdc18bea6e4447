// Asks who is missing, once a collective has failed.
// Promises: no collective; one line in the store per rank, and only then; over in kLongest, also
// where the store does not answer because it is served by a rank that was stopped.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <optional>
#include <vector>

#include "worker/plan/lost_peers.h"

namespace ddp::worker {

/// After the first rank that gives up has closed its connections, all that wait for it fail within
/// milliseconds; a busy machine takes longer.
inline constexpr std::chrono::milliseconds kReportWait{400};
/// More for rank 0 where it serves the store: the others read it until then.
inline constexpr std::chrono::milliseconds kServerWait{200};
inline constexpr std::chrono::milliseconds kLongest{900};

/// Leaves `own` in the store, waits for `wait`, and reads what the others have left.
/// Blocks: for `wait` and the store, at most kLongest. Errors: none; nothing when the store fails
/// or does not answer.
std::optional<std::vector<FailureReport>> exchange_reports(
    const c10::intrusive_ptr<c10d::Store>& store,
    const FailureReport& own,
    std::chrono::milliseconds wait);

}  // namespace ddp::worker
