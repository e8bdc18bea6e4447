// Bytes packed as data files are.
#pragma once

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>

#include <cstdint>
#include <vector>

namespace ddp {

using Bytes = std::vector<std::uint8_t>;

inline Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes packed(deflateBound(&stream, plain.size()) + 64);
  Bytes input = plain;
  stream.next_in = input.data();
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline Bytes xz(const Bytes& plain) {
  Bytes packed(lzma_stream_buffer_bound(plain.size()));
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(0,
                                    LZMA_CHECK_CRC64,
                                    nullptr,
                                    plain.data(),
                                    plain.size(),
                                    packed.data(),
                                    &size,
                                    packed.size()),
            LZMA_OK);
  packed.resize(size);
  return packed;
}

}  // namespace ddp
