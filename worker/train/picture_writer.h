// Draws pictures and writes them into the run directory as PNG files, and results as text files, on
// a background thread, so that neither training nor checkpoints wait.
// Promises: a file is whole or does not exist; the queue is bounded, because only the newest
// picture of each name waits; a picture that cannot be drawn or written causes one warning, and the
// run continues.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "common/files/owned_dir.h"
#include "worker/image/picture.h"
#include "worker/save/background.h"

namespace ddp::worker {

/// The destructor waits until all is written.
class PictureWriter {
 public:
  /// `directory` outlives it.
  explicit PictureWriter(const OwnedDir& directory) : directory_(directory) {}

  /// Each picture becomes NAME.png, and replaces an older file. Errors: none.
  void write(Pictures pictures);
  /// The same for a text file. `text` must own all that it needs, like Picture::draw.
  void write_text(const std::string& file, std::function<std::string()> text);

  /// Blocks: until all is written.
  void wait() { background_.wait(); }

 private:
  using MakeBytes = std::function<std::string()>;

  void begin();
  void write_waiting();
  void write_one(const std::string& file, const MakeBytes& make);
  void warn(const std::string& what);

  const OwnedDir& directory_;
  std::mutex mutex_;                          // guards what follows
  std::map<std::string, MakeBytes> waiting_;  // by the file's name
  bool has_warned_ = false;
  Background background_{"that draws pictures"};  // declared last: it ends before the other members
};

}  // namespace ddp::worker
