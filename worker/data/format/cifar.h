// Reader of the binary files of CIFAR-10 and CIFAR-100, plain, gzip or xz: records of the labels
// and 3 x 32 x 32 bytes, without any header.
// Promises: sizes are exact (a short file and trailing bytes are errors, in compressed files too);
// every label is checked; memory grows with the bytes that arrive.
// Trap: nothing in such a file says which set it is. If records of one set are read as the other's,
// labels are out of range after a few records; that is why every label is checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ddp::worker {

inline constexpr std::int64_t kCifarSide = 32;
inline constexpr std::int64_t kCifarChannels = 3;

/// The labels of a record, which precede its pixels.
struct CifarForm {
  std::string name;        // "CIFAR-100"
  int coarse_classes = 0;  // of the first label, which is checked and dropped; 0: none
  int classes = 0;         // of the label that is kept
};

inline const CifarForm kCifar10{.name = "CIFAR-10", .classes = 10};
inline const CifarForm kCifar100{.name = "CIFAR-100", .coarse_classes = 20, .classes = 100};

struct CifarRecords {
  std::vector<std::uint8_t> pixels;  // [count, 3, 32, 32]: red, green, blue, each row by row
  std::vector<std::uint8_t> labels;  // [count], each below classes

  bool operator==(const CifarRecords&) const = default;
};

/// Reads a file of `count` records and appends them to `into`.
/// Errors: UsageError with the path and what was expected and found: not a regular file, too few or
/// too many bytes, a label out of range (with its record's index), a damaged compressed stream.
/// SystemError when reading fails.
void read_cifar(const std::filesystem::path& path,
                const CifarForm& form,
                std::int64_t count,
                CifarRecords& into);

/// The same for bytes in memory; `name` stands for the path in messages.
CifarRecords parse_cifar(std::span<const std::uint8_t> bytes,
                         const std::string& name,
                         const CifarForm& form,
                         std::int64_t count);

}  // namespace ddp::worker
