// Draws pictures and writes them into the run directory as PNG files, by a thread of its own: a
// checkpoint's writer would be late by them, and training has better things to do.
// Promises: a file is whole or not there; of a name the newest picture alone waits, so what waits
// is bounded; what cannot be drawn or written is one warning, and the run goes on.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "common/owned_dir.h"
#include "worker/image/picture.h"
#include "worker/save/background.h"

namespace ddp::worker {

/// Its end waits until all is written.
class PictureWriter {
 public:
  /// `directory` outlives it.
  explicit PictureWriter(const OwnedDir& directory) : directory_(directory) {}

  /// Each becomes NAME.png, in place of what stood there. Errors: none.
  void write(Pictures pictures);

  /// Blocks: until all is written.
  void wait() { background_.wait(); }

 private:
  void write_waiting();
  void write_one(const Picture& picture);
  void warn(const std::string& what);

  const OwnedDir& directory_;
  std::mutex mutex_;                        // of what follows
  std::map<std::string, Picture> waiting_;  // by name
  bool has_warned_ = false;
  Background background_;  // ends first
};

}  // namespace ddp::worker
