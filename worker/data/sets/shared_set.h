// Image sets that are in memory only once per node: one rank writes them into a memfd, which the
// other ranks open in /proc and map. It is sealed, so nobody can change it, and it ends with the
// last rank that has it.
#pragma once

#include <filesystem>
#include <memory>

#include "common/files/descriptor.h"
#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"

namespace ddp::worker {

/// Sets in memory that other processes of this user and node can map while this object exists.
class SharedSet {
 public:
  /// Copies the set. Errors: SystemError when there is not enough memory.
  explicit SharedSet(const DataSet& data);
  /// Opens the set of another process, by the path() there; it stays when that process ends.
  /// Errors: SystemError.
  explicit SharedSet(const std::filesystem::path& path);

  /// The path by which other processes open it.
  [[nodiscard]] std::filesystem::path path() const;

 private:
  Descriptor file_;
};

/// Maps the sets, without copying their pixels. Errors: SystemError when it cannot be mapped or
/// does not hold sets.
Sources map_shared_set(const std::filesystem::path& path);

}  // namespace ddp::worker
