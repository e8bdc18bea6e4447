// Finds out which ranks are missing after a collective has failed.
// Promises: no collective; one line per rank in the store, only after a failure; done within
// kLongest, even when the store does not answer because the rank that serves it is stopped.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <optional>
#include <vector>

#include "worker/plan/lost_peers.h"

namespace ddp::worker {

/// How long to wait for the others' reports. Once one rank gives up and closes its connections, all
/// that wait for it fail within milliseconds; on a busy machine it takes longer.
inline constexpr std::chrono::milliseconds kReportWait{400};
/// A rank 0 that serves the store waits this much longer, while the others read from it.
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
