// The ways of row_mix that an x86-64 has beside the plain one: on vectors of 32 bytes, with AVX2.
#pragma once

#include <vector>

#include "worker/image/row_mix.h"

namespace ddp::worker {

/// Of another CPU: none.
std::vector<MixWay> mix_ways_of_x86();

}  // namespace ddp::worker
