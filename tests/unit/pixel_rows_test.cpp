#include "worker/image/pixel_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ddp::worker {
namespace {

constexpr std::uint8_t kUntouched = 77;

TEST(PixelRows, FourRowsComeSideBySideAndApart) {
  for (const std::size_t count : {1U, 15U, 16U, 17U, 100U}) {
    std::array<std::vector<std::uint8_t>, 4> rows;
    std::uint32_t state = 1;
    for (std::vector<std::uint8_t>& row : rows) {
      row.resize(count);
      for (std::uint8_t& byte : row)
        byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    }
    std::vector<std::uint8_t> pixels(4 * count + 1, kUntouched);
    interleave(
        {rows[0].data(), rows[1].data(), rows[2].data(), rows[3].data()}, count, pixels.data());
    for (std::size_t i = 0; i < 4 * count; ++i)
      ASSERT_EQ(pixels[i], rows[i % 4][i / 4]) << count << ", byte " << i;
    EXPECT_EQ(pixels.back(), kUntouched) << "nothing behind it is written";

    for (const bool has_last : {true, false}) {
      std::array<std::vector<std::uint8_t>, 4> apart;
      std::array<std::uint8_t*, 4> into{};
      for (std::size_t k = 0; k < 4; ++k) {
        apart[k].assign(count + 1, kUntouched);
        into[k] = apart[k].data();
      }
      if (!has_last) into[3] = nullptr;
      separate(pixels.data(), count, into);
      for (std::size_t k = 0; k < (has_last ? 4U : 3U); ++k) {
        EXPECT_TRUE(std::ranges::equal(rows[k], std::span(apart[k]).first(count))) << k;
        EXPECT_EQ(apart[k].back(), kUntouched) << "nothing behind it is written";
      }
    }
  }
}

}  // namespace
}  // namespace ddp::worker
