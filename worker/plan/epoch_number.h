// The number of an epoch as users see it, counted from 1: on the console, the progress page, in
// metrics, in reports. Positions, checkpoints, seeds and hooks count finished epochs, from 0.
#pragma once

#include <cstdint>

namespace ddp::worker {

/// The number of the epoch that follows `done` finished epochs.
constexpr std::int64_t epoch_number(std::int64_t done) {
  return done + 1;
}

}  // namespace ddp::worker
