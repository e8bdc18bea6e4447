// The ways of byte_floats that an x86-64 has beside the plain one: on vectors of 32 bytes, with
// AVX2.
#pragma once

#include <vector>

#include "worker/image/byte_floats.h"

namespace ddp::worker {

/// Of another CPU: none.
std::vector<FloatWay> float_ways_of_x86();

}  // namespace ddp::worker
