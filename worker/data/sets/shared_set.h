// Image sets once per node: one rank writes them to memory that has a name in /proc, the others map
// it. Nobody can change it, and it is gone with the last of them.
#pragma once

#include <filesystem>
#include <memory>

#include "common/files/descriptor.h"
#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"

namespace ddp::worker {

/// Sets in memory that other processes of this user and node can map, for as long as this one lives
/// and keeps it. One owner.
class SharedSet {
 public:
  /// Copies the set. Errors: SystemError when there is not enough memory.
  explicit SharedSet(const DataSet& data);
  /// The one that another process has at `path`; it stays when that one ends. Errors: SystemError.
  explicit SharedSet(const std::filesystem::path& path);

  /// Where other processes find it.
  [[nodiscard]] std::filesystem::path path() const;

 private:
  Descriptor file_;
};

/// The sets in there. Their pixels stay where they are. Errors: SystemError when it cannot be
/// mapped or does not hold sets.
Sources map_shared_set(const std::filesystem::path& path);

}  // namespace ddp::worker
