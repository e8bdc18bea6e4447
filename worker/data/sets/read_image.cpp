#include "worker/data/sets/read_image.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "common/error.h"
#include "common/files/input_file.h"
#include "worker/data/source.h"
#include "worker/image/geometry.h"
#include "worker/image/orientation.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kHeader = std::size_t{1} << 16;  // bytes; they nearly always hold the header
constexpr int kTries = 3;
constexpr std::chrono::milliseconds kPause{200};

/// Why a file could not be read.
struct Failure {
  std::string why;
  bool may_pass = true;  // worth another try: a network disk may lose a file for a moment
};

/// True for a folder or a FIFO, which will stay one. A file that is gone was listed once, and may
/// come back.
bool is_other_than_a_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return !error && std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/// Reads the whole file into `into`.
std::optional<Failure> read_file(const std::filesystem::path& path,
                                 const DecodeLimits& limits,
                                 std::vector<std::uint8_t>& into) {
  try {
    std::string why_not;
    const std::optional<InputFile> file = InputFile::open(path, why_not);
    if (!file) return Failure{why_not, !is_other_than_a_file(path)};
    if (file->size() > limits.bytes)
      return Failure{
          "it has " + std::to_string(file->size()) + " bytes, more than an image may have", false};
    into.resize(file->size());
    if (file->read(std::as_writable_bytes(std::span(into))) < into.size())
      return Failure{"it became shorter while it was read"};
  } catch (const SystemError& error) {
    return Failure{error.what()};
  }
  return {};
}

/// In a JPEG, EXIF data come before the size, so a beginning that has the size has both.
ImageSize size_in(std::span<const std::uint8_t> file) {
  return oriented_size(read_image_header(file).size, read_orientation(file));
}

/// Reads the size from the file's header; or returns why there is none.
std::optional<Failure> read_size(const std::filesystem::path& path, ImageSize& into) {
  try {
    std::string why_not;
    const std::optional<InputFile> file = InputFile::open(path, why_not);
    if (!file) return Failure{why_not, !is_other_than_a_file(path)};
    if (file->size() > DecodeLimits().bytes) return Failure{"it is too large", false};
    std::vector<std::uint8_t> bytes(std::min(file->size(), kHeader));
    bytes.resize(file->read(std::as_writable_bytes(std::span(bytes))));
    try {
      into = size_in(bytes);
      return {};
    } catch (const BadImage& error) {
      if (bytes.size() == file->size()) return Failure{error.what(), false};
    }
    // A preview or a colour profile may come before the size.
    const std::size_t read = bytes.size();
    bytes.resize(file->size());
    bytes.resize(read + file->read(std::as_writable_bytes(std::span(bytes).subspan(read))));
    into = size_in(bytes);
  } catch (const BadImage& error) {
    return Failure{error.what(), false};
  } catch (const SystemError& error) {
    return Failure{error.what()};
  }
  return {};
}

/// The last result of `read`, which is tried again if its failure may pass.
template <typename Read>
std::optional<Failure> insist(const Read& read) {
  std::optional<Failure> failure = read();
  for (int tries = 1; failure && failure->may_pass && tries < kTries; ++tries) {
    ::poll(nullptr, 0, static_cast<int>(kPause.count()));
    failure = read();
  }
  return failure;
}

/// The bytes of the file, valid until the next call on the same thread.
std::span<const std::uint8_t> bytes_of(const std::filesystem::path& path,
                                       const DecodeLimits& limits) {
  thread_local std::vector<std::uint8_t> bytes;
  const std::optional<Failure> failure = insist([&] { return read_file(path, limits, bytes); });
  if (failure) throw BadSample(path.string() + ": " + failure->why);
  if (bytes.empty()) throw BadSample(path.string() + ": it is empty");
  return bytes;
}

/// As decode_image() of the image as viewers show it: rotated and mirrored as its EXIF data say.
ImageSize decode_oriented(std::span<const std::uint8_t> bytes,
                          const DecodeRequest& request,
                          const DecodeLimits& limits,
                          Image& into) {
  const Orientation orientation = read_orientation(bytes);
  if (orientation == Orientation::upright) return decode_image(bytes, request, limits, into);
  Image whole;
  DecodeRequest all;
  all.channels = request.channels;
  all.background = request.background;
  const ImageSize size = oriented_size(decode_image(bytes, all, limits, whole), orientation);
  orient(whole, orientation);
  const Region part = wanted_part(request, size);
  if (request.size)
    Resizer().resize(whole, part, *request.size, into);
  else
    crop(whole, part, {}, into);
  return size;
}

ImageSize decode(const std::filesystem::path& path,
                 std::span<const std::uint8_t> bytes,
                 const DecodeRequest& request,
                 const DecodeLimits& limits,
                 Image& into) {
  try {
    return decode_oriented(bytes, request, limits, into);
  } catch (const BadImage& error) {
    throw BadSample(path.string() + ": " + error.what());
  }
}

/// Lets `read` fill an image, which becomes the input of a sample and has its memory.
template <typename Read>
void fill_input(Sample& into, const Read& read) {
  Image image;
  image.bytes.swap(into.input.bytes);
  read(image);
  into.input.bytes.swap(image.bytes);
  into.input.type = NumberType::uint8;
  into.input.shape = {image.channels, image.height, image.width};
}

}  // namespace

ImageSize read_image(const std::filesystem::path& path,
                     const DecodeRequest& request,
                     const DecodeLimits& limits,
                     Image& into) {
  return decode(path, bytes_of(path, limits), request, limits, into);
}

void read_image(const std::filesystem::path& path, const DecodeRequest& request, Sample& into) {
  fill_input(into, [&](Image& image) { read_image(path, request, {}, image); });
}

std::optional<ImageSize> read_image_size(const std::filesystem::path& path) {
  ImageSize size;
  const bool is_known = !insist([&] { return read_size(path, size); });
  return is_known && size.height > 0 && size.width > 0 ? std::optional(size) : std::nullopt;
}

}  // namespace ddp::worker
