#include "worker/data/format/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/error.h"
#include "worker/data/format/byte_source.h"

namespace ddp::worker {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 30;  // of one array
constexpr std::size_t kGrowth = std::size_t{1} << 20;        // what memory grows by

std::string join_shape(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape)
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::uint32_t read_word(ByteSource& source) {
  std::array<std::uint8_t, 4> bytes{};
  if (source.read(bytes) < bytes.size()) source.refuse("it ends within its header");
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

// The sizes that a header claims. No memory is allocated by them.
std::vector<std::int64_t> read_shape(ByteSource& source, int rank) {
  const std::uint32_t magic = read_word(source);
  const std::uint32_t expected = 0x0800U + static_cast<std::uint32_t>(rank);
  if (magic != expected) {
    source.refuse(fmt::format(
        "its magic number is {:#010x}, expected {:#010x} (unsigned bytes in {} dimension{})",
        magic,
        expected,
        rank,
        rank == 1 ? "" : "s"));
  }
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rank; ++i)
    shape.push_back(read_word(source));
  return shape;
}

std::uint64_t payload_size(const std::vector<std::int64_t>& shape, const ByteSource& source) {
  std::uint64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) source.refuse("its header says " + join_shape(shape) + ", which holds nothing");
    // The product is at most 2^32 and the size below it, so this cannot overflow.
    product *= static_cast<std::uint64_t>(size);
    if (product > kMaxBytes)
      source.refuse("its header says " + join_shape(shape) + " bytes, more than the 4 GiB allowed");
  }
  return product;
}

IdxArray parse(ByteSource source, int rank) {
  IdxArray array;
  array.shape = read_shape(source, rank);
  const std::uint64_t expected = payload_size(array.shape, source);
  const std::uint64_t header = 4 + 4 * static_cast<std::uint64_t>(rank);
  const std::string claim = std::to_string(header + expected) + " bytes (header " +
                            std::to_string(header) + " + " + join_shape(array.shape) + ")";
  while (array.bytes.size() < expected) {
    const std::size_t done = array.bytes.size();
    const std::size_t room = std::min<std::uint64_t>(expected - done, kGrowth);
    array.bytes.resize(done + room);
    const std::size_t size = source.read(std::span(array.bytes).subspan(done, room));
    if (size < room) source.refuse_cut(claim, header + done + size);
  }
  source.require_end(claim);
  return array;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int rank) {
  return parse(ByteSource::open(path, "IDX"), rank);
}

IdxArray parse_idx(std::span<const std::uint8_t> bytes, const std::string& name, int rank) {
  return parse(ByteSource::of(bytes, name, "IDX"), rank);
}

void check_idx_pair(const IdxArray& images,
                    const IdxArray& labels,
                    int classes,
                    const std::string& images_name,
                    const std::string& labels_name) {
  if (images.shape.size() != 3 || labels.shape.size() != 1)
    throw UsageError(images_name + " and " + labels_name +
                     " are not images [N, H, W] and labels [N]");
  if (images.shape[0] != labels.shape[0]) {
    throw UsageError(images_name + " holds " + std::to_string(images.shape[0]) + " images, " +
                     labels_name + " holds " + std::to_string(labels.shape[0]) +
                     " labels. Take both files from the same set.");
  }
  const auto wrong = std::find_if(labels.bytes.begin(),
                                  labels.bytes.end(),
                                  [&](std::uint8_t label) { return label >= classes; });
  if (wrong != labels.bytes.end()) {
    throw UsageError(labels_name + ": label " + std::to_string(*wrong) + " at index " +
                     std::to_string(wrong - labels.bytes.begin()) + ", expected 0 to " +
                     std::to_string(classes - 1) + ".");
  }
}

}  // namespace ddp::worker
