// Finds out which ranks are missing after a collective has failed.
// Promises: no collective; one line in the store per rank, only after a failure; done in kLongest,
// even where the store does not answer because the rank that serves it was stopped.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <optional>
#include <vector>

#include "worker/plan/lost_peers.h"

namespace ddp::worker {

/// Once the first rank gives up and closes its connections, all ranks that wait for it fail within
/// milliseconds. A busy machine takes longer.
inline constexpr std::chrono::milliseconds kReportWait{400};
/// Added for a rank 0 that serves the store: the others read it until then.
inline constexpr std::chrono::milliseconds kServerWait{200};
inline constexpr std::chrono::milliseconds kLongest{900};

/// Writes `own` to the store, waits for `wait`, and reads what the other ranks have written.
/// Blocks: for `wait` and the store, at most kLongest. Errors: none; no value when the store fails
/// or does not answer.
std::optional<std::vector<FailureReport>> exchange_reports(
    const c10::intrusive_ptr<c10d::Store>& store,
    const FailureReport& own,
    std::chrono::milliseconds wait);

}  // namespace ddp::worker
