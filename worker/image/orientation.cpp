#include "worker/image/orientation.h"

#include <optional>
#include <string_view>
#include <utility>

#include "worker/image/geometry.h"

namespace ddp::worker {
namespace {

/// Bytes with numbers of one byte order. A number outside of them has no value.
class Numbers {
 public:
  Numbers(std::span<const std::uint8_t> bytes, bool is_big_endian)
      : bytes_(bytes), is_big_endian_(is_big_endian) {}

  [[nodiscard]] std::optional<std::uint32_t> at(std::size_t place, std::size_t size) const {
    if (place > bytes_.size() || bytes_.size() - place < size) return {};
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < size; ++i)
      number = (number << 8) | bytes_[place + (is_big_endian_ ? i : size - 1 - i)];
    return number;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool is_big_endian_;
};

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The EXIF data of a JPEG, a TIFF without pixels: its first segment of that kind (Exif 2.32,
/// 4.7.2).
std::span<const std::uint8_t> find_exif(std::span<const std::uint8_t> file) {
  constexpr std::string_view kName("Exif\0\0", 6);
  constexpr std::uint32_t kApp1 = 0xFFE1;
  constexpr std::uint32_t kScan = 0xFFDA;  // pixels from here on
  const Numbers numbers(file, true);
  if (numbers.at(0, 2) != 0xFFD8) return {};
  for (std::size_t place = 2;;) {
    while (numbers.at(place, 2) == 0xFFFF)
      ++place;  // padding
    const std::optional<std::uint32_t> marker = numbers.at(place, 2);
    const std::optional<std::uint32_t> size = numbers.at(place + 2, 2);  // with its own two bytes
    if (!size || *size < 2 || *marker < 0xFF00 || *marker == kScan) return {};
    if (file.size() - place - 2 < *size) return {};
    const auto segment = file.subspan(place + 4, *size - 2);
    if (marker == kApp1 && text_of(segment).starts_with(kName))
      return segment.subspan(kName.size());
    place += 2 + *size;
  }
}

/// Reads tag 274 of the first directory.
std::optional<std::uint32_t> orientation_in(std::span<const std::uint8_t> tiff) {
  constexpr std::uint32_t kTag = 274;
  constexpr std::uint32_t kShort = 3;
  constexpr std::size_t kEntry = 12;  // bytes: tag, type, count, value
  const bool is_big_endian = text_of(tiff).starts_with("MM");
  if (!is_big_endian && !text_of(tiff).starts_with("II")) return {};
  const Numbers numbers(tiff, is_big_endian);
  const std::optional<std::uint32_t> directory = numbers.at(4, 4);
  if (numbers.at(2, 2) != 42 || !directory) return {};
  const std::size_t entries = numbers.at(*directory, 2).value_or(0);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = *directory + 2 + i * kEntry;
    if (numbers.at(entry, 2) == kTag && numbers.at(entry + 2, 2) == kShort)
      return numbers.at(entry + 8, 2);
  }
  return {};
}

bool swaps_sides(Orientation orientation) {
  return orientation >= Orientation::transposed;
}

/// Swaps rows and columns.
void transpose(Image& image) {
  Image turned;
  turned.reshape(image.channels, {image.width, image.height});
  for (int channel = 0; channel < image.channels; ++channel) {
    for (int y = 0; y < image.height; ++y) {
      const std::uint8_t* from = image.row(channel, y);
      for (int x = 0; x < image.width; ++x)
        turned.row(channel, x)[y] = from[x];
    }
  }
  image = std::move(turned);
}

}  // namespace

Orientation read_orientation(std::span<const std::uint8_t> file) {
  const std::uint32_t number = orientation_in(find_exif(file)).value_or(1);
  return number >= 1 && number <= 8 ? static_cast<Orientation>(number) : Orientation::upright;
}

ImageSize oriented_size(ImageSize in_file, Orientation orientation) {
  return swaps_sides(orientation) ? ImageSize{in_file.width, in_file.height} : in_file;
}

void orient(Image& image, Orientation orientation) {
  if (swaps_sides(orientation)) transpose(image);
  switch (orientation) {
    case Orientation::upright:
    case Orientation::transposed:
      return;
    case Orientation::mirrored:
    case Orientation::quarter_turn:
      return flip_horizontal(image);
    case Orientation::upside_down_mirror:
    case Orientation::three_quarter_turn:
      return flip_vertical(image);
    case Orientation::half_turn:
    case Orientation::transversed:
      flip_horizontal(image);
      return flip_vertical(image);
  }
}

}  // namespace ddp::worker
