#include "worker/fetch/tar.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <vector>

namespace ddp::worker {
namespace {

constexpr std::size_t kBlock = 512;

using Block = std::array<std::uint8_t, kBlock>;

// Fields of a header: POSIX.1-1988, pax(1), "ustar Interchange Format".
struct Field {
  std::size_t begin;
  std::size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kSum{148, 8};
constexpr Field kKind{156, 1};
constexpr Field kMagic{257, 5};
constexpr Field kPrefix{345, 155};

std::string text_of(const Block& block, Field field) {
  const std::string_view whole(reinterpret_cast<const char*>(block.data()) + field.begin,
                               field.size);
  return std::string(whole.substr(0, whole.find('\0')));
}

/// Reads octal digits, with blanks around them. Twelve digits are 36 bits, so nothing overflows.
std::optional<std::uint64_t> number_of(const Block& block, Field field) {
  const std::string text = text_of(block, field);
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  const std::size_t end = text.find_last_not_of(' ') + 1;
  std::uint64_t number = 0;
  for (const char digit : text.substr(begin, end - begin)) {
    if (digit < '0' || digit > '7') return {};
    number = number * 8 + static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

/// The sum of all bytes, with those of the sum itself taken as blanks.
std::uint64_t sum_of(Block block) {
  std::fill_n(block.begin() + kSum.begin, kSum.size, std::uint8_t{' '});
  return std::accumulate(block.begin(), block.end(), std::uint64_t{0});
}

}  // namespace

std::optional<TarMember> TarReader::next() {
  skip(left_ + padding_);
  left_ = padding_ = 0;
  Block block{};
  if (archive_.read(block) < kBlock) archive_.refuse("it is cut off between two members");
  const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
  if (std::all_of(block.begin(), block.end(), is_zero)) return {};
  if (number_of(block, kSum) != sum_of(block) || text_of(block, kMagic) != "ustar")
    archive_.refuse("a member's header is damaged, or this is not a tar archive");
  const std::optional<std::uint64_t> size = number_of(block, kSize);
  if (!size) archive_.refuse("the size of " + text_of(block, kName) + " is not a number");
  const std::uint8_t kind = block[kKind.begin];
  const std::string prefix = text_of(block, kPrefix);
  // GNU's tar, whose magic ends in blanks, has other data in place of the prefix.
  const bool has_prefix = block[kMagic.begin + kMagic.size] == 0 && !prefix.empty();
  left_ = *size;
  padding_ = (kBlock - *size % kBlock) % kBlock;
  return TarMember{.name = (has_prefix ? prefix + "/" : "") + text_of(block, kName),
                   .size = *size,
                   .is_file = kind == '0' || kind == 0};
}

std::size_t TarReader::read(std::span<std::uint8_t> buffer) {
  const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), left_);
  if (archive_.read(buffer.first(wanted)) < wanted)
    archive_.refuse("it is cut off within a member");
  left_ -= wanted;
  return wanted;
}

void TarReader::skip(std::uint64_t bytes) {
  std::vector<std::uint8_t> buffer(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 20));
  while (bytes > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(bytes, buffer.size());
    if (archive_.read(std::span(buffer).first(wanted)) < wanted)
      archive_.refuse("it is cut off within a member");
    bytes -= wanted;
  }
}

}  // namespace ddp::worker
