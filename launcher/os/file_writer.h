// The launcher's other threads: they write log files and the console, so that a stalled disk or a
// terminal that was stopped by Ctrl-S never stops the loop that watches workers. Each lane is one
// thread with one queue: stdout, stderr (the same lane where both are one terminal or file, so that
// their order stays), and all log files, as they are on one disk. So a lane that is stuck in a
// write() holds nobody else: without its own thread a dead disk would take the console with it.
// Promises: bytes of one target arrive in order; a target that fails is reported once and then
// skipped; a queue is bounded by its users, who look at queued_bytes() before they add more; a lane
// that takes nothing any more never holds the end of the job. On a pipe or a terminal one write()
// is at most PIPE_BUF bytes, whole lines where they fit, so nobody's line comes between them
// (pipe(7)). Traps: these threads must never fork; all signals are blocked in them, so that they
// reach the loop; O_NONBLOCK would change the console of everybody who shares it.
// A lane's thread begins with the first thing that it has to write: a job that says nothing has
// none. A terminal can have a footer, a last line that is rewritten in place: only the thread that
// writes the other lines knows when it is to be erased and drawn again. A worker's progress bar
// takes the place of what the launcher has to say there.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/files/owned_dir.h"

namespace ddp::launcher {

class FileWriter {
 public:
  using Target = std::size_t;
  static constexpr Target kStdout = 0;
  static constexpr Target kStderr = 1;
  /// A lane that has taken no byte for so long, at the end of a job, is given up.
  static constexpr std::chrono::seconds kStallWait{3};

  FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Blocks: until all is written, as long as something moves; kStallWait for lanes that take
  /// nothing.
  ~FileWriter();

  /// A file of that name in `directory`, which the files' thread opens at once: it is there
  /// although nothing is written, as tail -f and collectors of logs expect. Errors: SystemError
  /// when this is the first one and the thread cannot be started; one line on stderr for the file.
  Target open(std::shared_ptr<const OwnedDir> directory, const std::string& name);
  /// After what was written before. The number may come again from open().
  void close(Target target);

  /// Removes what has that name in `directory`, with all that is in it, as its turn comes: nothing
  /// waits for a slow disk. What cannot be removed stays. Errors: as open().
  void remove(std::shared_ptr<const OwnedDir> directory, const std::string& name);

  void write(Target target, std::string bytes);

  /// Whether stderr is a terminal.
  [[nodiscard]] bool has_terminal() const;
  /// Below all other lines of that terminal, cut to its width, until the next one; empty: none.
  /// Nothing without a terminal.
  void show_footer(std::string text);
  /// In its place, as long as it is not empty.
  void show_bar(std::string text);
  /// In columns: what of it is shown.
  [[nodiscard]] static std::size_t footer_width();

  /// Of the lane of `target`.
  [[nodiscard]] std::size_t queued_bytes(Target target) const;
  /// For how long nothing has moved in the lane of `target` although something is queued.
  [[nodiscard]] std::chrono::nanoseconds stalled_for(Target target) const;
  /// A target that failed, or whose lane was given up: what is written to it is lost.
  [[nodiscard]] bool has_failed(Target target) const;

  /// Gives up the log files when they have taken nothing for kStallWait, with one line.
  void leave_stuck_files();

 private:
  struct Output;
  class Lane;
  struct Place {
    Lane* lane = nullptr;
    Output* output = nullptr;
  };

  void draw_footer();

  // A lane's owners are the FileWriter and its thread, which may be left behind in a write().
  std::shared_ptr<Lane> errors_;
  std::shared_ptr<Lane> output_;
  std::shared_ptr<Lane> files_;
  std::vector<Place> places_;  // by target
  std::string footer_;
  std::string bar_;
};

}  // namespace ddp::launcher
