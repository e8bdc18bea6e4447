#include "worker/image/byte_floats.h"

#include <gtest/gtest.h>

#include <random>

namespace ddp::worker {
namespace {

/// Every way, to memory at `offset` from where a vector would begin.
void expect_quotients(const std::vector<std::uint8_t>& planes, std::size_t offset) {
  const std::size_t count = planes.size() / 3;
  for (const FloatKernel& kernel : float_kernels()) {
    std::vector<float> into(3 * count + 17, -1);
    const auto address = reinterpret_cast<std::uintptr_t>(into.data());
    const std::size_t first = (64 - address % 64) % 64 / sizeof(float) % 8 + offset;
    kernel.write(planes.data(), count, into.data() + first);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        const float wanted = static_cast<float>(planes[k * count + i]) / 255.0F;
        ASSERT_EQ(into[first + 3 * i + k], wanted)
            << kernel.name << ", pixel " << i << " of " << count;
      }
    }
    if (first > 0) {
      EXPECT_EQ(into[first - 1], -1) << kernel.name;
    }
    EXPECT_EQ(into[first + 3 * count], -1) << kernel.name << ", " << count;
  }
}

TEST(ByteFloats, EveryByteIsItsQuotientInEveryChannel) {
  std::vector<std::uint8_t> planes(3 * 256);
  for (std::size_t i = 0; i < planes.size(); ++i)
    planes[i] = static_cast<std::uint8_t>(i + i / 256 * 85);
  expect_quotients(planes, 0);
  expect_quotients(planes, 1);
}

TEST(ByteFloats, AnyNumberOfPixelsIsWritten) {
  std::mt19937 bits(1);
  for (const std::size_t count : {0U, 1U, 5U, 15U, 16U, 17U, 31U, 100U, 87381U, 87400U, 90007U}) {
    std::vector<std::uint8_t> planes(3 * count);
    for (std::uint8_t& byte : planes)
      byte = static_cast<std::uint8_t>(bits());
    expect_quotients(planes, 0);
    expect_quotients(planes, 3);
  }
}

}  // namespace
}  // namespace ddp::worker
