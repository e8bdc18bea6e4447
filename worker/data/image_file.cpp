#include "worker/data/image_file.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>

#include "common/error.h"
#include "common/input_file.h"
#include "worker/data/source.h"

namespace ddp::worker {
namespace {

constexpr int kTries = 3;
constexpr std::chrono::milliseconds kPause{200};

/// All of the file into `into`. Returns why not, or nothing.
std::string read_file(const std::filesystem::path& path,
                      const DecodeLimits& limits,
                      std::vector<std::uint8_t>& into) {
  try {
    std::string why_not;
    const std::optional<InputFile> file = InputFile::open(path, why_not);
    if (!file) return why_not;
    if (file->size() > limits.bytes)
      return "it has " + std::to_string(file->size()) + " bytes, more than an image may have";
    into.resize(file->size());
    if (file->read(std::as_writable_bytes(std::span(into))) < into.size())
      return "it became shorter while it was read";
  } catch (const SystemError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

ImageSize read_image(const std::filesystem::path& path,
                     const DecodeWish& wish,
                     const DecodeLimits& limits,
                     Image& into) {
  thread_local std::vector<std::uint8_t> bytes;
  std::string why_not;
  for (int tries = 0; tries < kTries; ++tries) {
    if (tries > 0) ::poll(nullptr, 0, static_cast<int>(kPause.count()));
    why_not = read_file(path, limits, bytes);
    if (why_not.empty()) break;
  }
  if (!why_not.empty()) throw BadSample(path.string() + ": " + why_not);
  if (bytes.empty()) throw BadSample(path.string() + ": it is empty");
  try {
    return decode_image(bytes, wish, limits, into);
  } catch (const BadImage& error) {
    throw BadSample(path.string() + ": " + error.what());
  }
}

void read_image(const std::filesystem::path& path, const DecodeWish& wish, Sample& into) {
  Image image;
  image.bytes.swap(into.input.bytes);
  read_image(path, wish, {}, image);
  into.input.bytes.swap(image.bytes);
  into.input.type = NumberType::uint8;
  into.input.shape = {image.channels, image.height, image.width};
}

}  // namespace ddp::worker
