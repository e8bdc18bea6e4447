#include "worker/data/format/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <numeric>
#include <string>

#include "common/error.h"
#include "tests/unit/packing.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::HasSubstr;

Bytes counting(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
  return bytes;
}

Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Bytes cut(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

// In pieces of a size that divides nothing.
Bytes read_all(ByteSource source) {
  Bytes all;
  Bytes piece(1021);
  for (;;) {
    const std::size_t size = source.read(piece);
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(size));
    if (size < piece.size()) return all;
  }
}

Bytes read_all(const Bytes& bytes) {
  return read_all(ByteSource::of(bytes, "input", "TEST"));
}

std::string refusal(const Bytes& bytes) {
  try {
    read_all(bytes);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ByteSource, PlainAndPackedBytesAreTheSame) {
  for (const std::size_t size : {0U, 1U, 5U, 6U, 7U, 1021U, 65536U, 3'000'000U}) {
    const Bytes plain = counting(size);
    EXPECT_EQ(read_all(plain), plain) << size;
    EXPECT_EQ(read_all(gzip(plain)), plain) << size;
    EXPECT_EQ(read_all(xz(plain)), plain) << size;
  }
}

TEST(ByteSource, AFileIsToldByItsBytesAndNotByItsName) {
  const Scratch scratch;
  const Bytes plain = counting(100'000);
  for (const Bytes& form : {plain, gzip(plain), xz(plain)}) {
    scratch.write("file.gz", std::string(form.begin(), form.end()));
    EXPECT_EQ(read_all(ByteSource::open(scratch.path() / "file.gz", "TEST")), plain);
  }
}

TEST(ByteSource, StreamsInARowAreOne) {
  const Bytes plain = counting(5000);
  const Bytes twice = joined(plain, plain);
  EXPECT_EQ(read_all(joined(gzip(plain), gzip(plain))), twice);
  EXPECT_EQ(read_all(joined(xz(plain), xz(plain))), twice);
  const Bytes padding(8, 0);
  EXPECT_EQ(read_all(joined(joined(xz(plain), padding), xz(plain))), twice);
}

TEST(ByteSource, D1EveryCutOfAPackedStreamIsRefused) {
  const Bytes plain = counting(300);
  for (const Bytes& packed : {gzip(plain), xz(plain)}) {
    for (std::size_t size = 6; size < packed.size(); ++size)
      EXPECT_THAT(refusal(cut(packed, size)), HasSubstr("stream is cut off")) << size;
  }
}

TEST(ByteSource, D1EveryDamageOfAnXzStreamIsRefused) {
  const Bytes packed = xz(counting(300));
  for (std::size_t i = 6; i < packed.size(); ++i) {
    Bytes damaged = packed;
    damaged[i] ^= 0x10;
    EXPECT_NE(refusal(damaged), "accepted") << i;
  }
}

TEST(ByteSource, D1WhatFollowsAPackedStreamIsRefused) {
  const Bytes plain = counting(300);
  EXPECT_EQ(refusal(joined(gzip(plain), {'x'})),
            "cannot read input as TEST: there are bytes after the gzip stream");
  EXPECT_THAT(refusal(joined(xz(plain), Bytes(12, 'x'))),
              HasSubstr("the xz stream is broken, or something else follows it, after 300"));
  // Fewer bytes than a stream begins with, and padding of a length that is not a multiple of 4.
  EXPECT_THAT(refusal(joined(xz(plain), {'x'})), HasSubstr("the xz stream is "));
  EXPECT_THAT(refusal(joined(xz(plain), {0, 0, 0})), HasSubstr("the xz stream is "));
}

TEST(ByteSource, D3AnXzHeaderThatAsksForMuchMemoryIsRefused) {
  // A few bytes, with a dictionary of 1 GiB that only their header claims.
  lzma_options_lzma options{};
  ASSERT_FALSE(lzma_lzma_preset(&options, 0));
  options.dict_size = std::uint32_t{1} << 30;
  std::array<lzma_filter, 2> filters{{{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}}};
  const Bytes plain = counting(300);
  Bytes packed(lzma_stream_buffer_bound(plain.size()));
  std::size_t size = 0;
  ASSERT_EQ(lzma_stream_buffer_encode(filters.data(),
                                      LZMA_CHECK_CRC32,
                                      nullptr,
                                      plain.data(),
                                      plain.size(),
                                      packed.data(),
                                      &size,
                                      packed.size()),
            LZMA_OK);
  EXPECT_THAT(refusal(cut(packed, size)), HasSubstr("needs more than 128 MiB to be unpacked"));
}

TEST(ByteSource, TheEndIsAskedFor) {
  const Bytes bytes = counting(10);
  ByteSource source = ByteSource::of(bytes, "input", "TEST");
  Bytes buffer(4);
  ASSERT_EQ(source.read(buffer), 4U);
  try {
    source.require_end("4 bytes");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "cannot read input as TEST: expected 4 bytes, found at least 6 bytes more. Get the "
        "file again");
  }
  EXPECT_NO_THROW(source.require_end("4 bytes"));  // it has been read to its end
}

TEST(ByteSource, Y6WhatIsNoRegularFileIsRefusedAtOnce) {
  const Scratch scratch;
  ASSERT_EQ(mkfifo((scratch.path() / "fifo").c_str(), 0600), 0);
  for (const std::filesystem::path& path : {scratch.path() / "absent",
                                            scratch.path(),
                                            scratch.path() / "fifo",
                                            std::filesystem::path("/dev/zero")})
    EXPECT_THROW(ByteSource::open(path, "TEST"), UsageError) << path;
}

}  // namespace
}  // namespace ddp::worker
