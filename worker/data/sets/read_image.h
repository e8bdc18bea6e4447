// Reads one file of an image set while a job trains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "worker/data/sample.h"
#include "worker/image/decode.h"

namespace ddp::worker {

/// Reads and decodes the file. `request.at_least` limits the smaller side, whether that is height
/// or width. Tries three times, because network disks lose files for a moment (ESTALE); but only
/// once if the file is not a regular file, or too large. Blocks: less than a second, and for the
/// disk. Returns the size in the file. Errors: BadSample, with the path, for whatever is wrong.
ImageSize read_image(const std::filesystem::path& path,
                     const DecodeRequest& request,
                     const DecodeLimits& limits,
                     Image& into);

/// As read_image() of the whole image, then rotated and mirrored as its EXIF data say: for images
/// with boxes, which people have drawn in the orientation that viewers show.
void read_oriented_image(const std::filesystem::path& path, int channels, Image& into);

/// The size that read_oriented_image() gives; no value when the header cannot be read. Usually
/// reads only a small part of the file.
std::optional<ImageSize> read_oriented_size(const std::filesystem::path& path);

/// The same into the input of a sample: bytes [channels, height, width].
void read_image(const std::filesystem::path& path, const DecodeRequest& request, Sample& into);
void read_oriented_image(const std::filesystem::path& path, int channels, Sample& into);

}  // namespace ddp::worker
