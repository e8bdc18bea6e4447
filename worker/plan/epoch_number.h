// How people see the number of an epoch: on the console, the progress page, in metrics, on pages.
// Positions, checkpoints, seeds and hooks count the epochs that are done, so there the first is 0.
#pragma once

#include <cstdint>

namespace ddp::worker {

/// The number of the epoch after `done` epochs: the first is 1.
constexpr std::int64_t epoch_number(std::int64_t done) {
  return done + 1;
}

}  // namespace ddp::worker
