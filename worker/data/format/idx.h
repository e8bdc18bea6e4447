// Reader of IDX files (MNIST's format), plain, gzip or xz. It does not trust headers.
// Promises: sizes are exact (a short file and trailing bytes are errors, in compressed files too);
// memory grows with the bytes that arrive, never because of what a header claims.
// Trap: LibTorch's own reader ignores short reads and accepts any label, and so trains on zeros
// without an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ddp::worker {

/// An array of unsigned bytes, the only element type of MNIST's files.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;  // row-major, product of shape

  bool operator==(const IdxArray&) const = default;
};

/// Reads a file with `rank` dimensions, plain or compressed (byte_source.h).
/// Errors: UsageError with the path and what was expected and found: not a regular file, wrong
/// magic, element type or rank, a size that overflows or exceeds 4 GiB, too few or too many bytes,
/// a damaged compressed stream. SystemError when reading fails.
IdxArray read_idx(const std::filesystem::path& path, int rank);

/// The same for bytes in memory; `name` stands for the path in messages.
IdxArray parse_idx(std::span<const std::uint8_t> bytes, const std::string& name, int rank);

/// Errors: UsageError unless `images` is [N, H, W], `labels` is [N], and each label is below
/// `classes` (the message has the label's index).
void check_idx_pair(const IdxArray& images,
                    const IdxArray& labels,
                    int classes,
                    const std::string& images_name,
                    const std::string& labels_name);

}  // namespace ddp::worker
