// Reads one file of an image set while a job trains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "worker/data/sample.h"
#include "worker/image/decode.h"

namespace ddp::worker {

/// Reads and decodes the file, rotated and mirrored as its EXIF data say. `request.at_least` limits
/// the smaller side, whether that is height or width. Tries three times, because network disks lose
/// files for a moment (ESTALE); but only once if the file is not a regular file, or too large.
/// Blocks: less than a second, and for the disk. Returns the size of the whole image, rotated.
/// Errors: BadSample, with the path, for whatever is wrong.
ImageSize read_image(const std::filesystem::path& path,
                     const DecodeRequest& request,
                     const DecodeLimits& limits,
                     Image& into);

/// The size that read_image() returns; no value when the header cannot be read. Usually
/// reads only a small part of the file.
std::optional<ImageSize> read_image_size(const std::filesystem::path& path);

/// As read_image(), into the input of a sample: bytes [channels, height, width].
void read_image(const std::filesystem::path& path, const DecodeRequest& request, Sample& into);

}  // namespace ddp::worker
