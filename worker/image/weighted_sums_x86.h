// The ways of weighted_sums that an x86-64 has: on vectors of 16 bytes always, of 32 with AVX2.
#pragma once

#include <vector>

#include "worker/image/weighted_sums.h"

namespace ddp::worker {

/// The faster one last. Of another CPU: none.
std::vector<SumWay> sum_ways_of_x86();

}  // namespace ddp::worker
