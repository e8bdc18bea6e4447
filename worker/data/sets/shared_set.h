// Image sets that are in memory once per node: one rank writes them into memory that has a name in
// /proc, the other ranks map it. Nobody can change it, and it is gone with the last rank that has
// it.
#pragma once

#include <filesystem>
#include <memory>

#include "common/files/descriptor.h"
#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"

namespace ddp::worker {

/// Sets in memory that other processes of this user and node can map, as long as this object lives.
/// One owner.
class SharedSet {
 public:
  /// Copies the set. Errors: SystemError when there is not enough memory.
  explicit SharedSet(const DataSet& data);
  /// Opens the set that another process has at `path`; it stays when that process ends. Errors:
  /// SystemError.
  explicit SharedSet(const std::filesystem::path& path);

  /// Where other processes find it.
  [[nodiscard]] std::filesystem::path path() const;

 private:
  Descriptor file_;
};

/// The sets in that memory, without a copy of their pixels. Errors: SystemError when it cannot be
/// mapped or does not hold sets.
Sources map_shared_set(const std::filesystem::path& path);

}  // namespace ddp::worker
