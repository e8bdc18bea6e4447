// The manifest of a checkpoint: what was saved, and the checksum of every part. It has a checksum
// of its own, so that a flipped bit in the step number is found, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/save/checkpoint/checkpoint.h"

namespace ddp::worker {

struct ManifestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string digest;  // XXH3-128 of its bytes

  bool operator==(const ManifestTensor&) const = default;
};

struct ManifestFile {
  std::string name;  // "model.safetensors"
  std::uint64_t size = 0;
  std::string digest;  // XXH3-128 of the whole file
  std::vector<ManifestTensor> tensors;

  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  CheckpointHead head;
  std::vector<ManifestFile> files;

  bool operator==(const Manifest&) const = default;
};

/// JSON; its first line holds the checksum of all that follows.
std::string to_text(const Manifest& manifest);

/// The inverse of to_text().
/// Errors: UsageError that says what is wrong (checksum, fields, a version newer than ours).
Manifest parse_manifest(std::string_view text);

}  // namespace ddp::worker
