// The launcher's other threads: they write log files and the console, so that a stalled disk or a
// terminal stopped by Ctrl-S never stops the loop that watches workers. Each lane is one thread
// with one queue: stdout, stderr (one lane for both if they are one terminal or file, so that their
// order is kept), and all log files, as they are on one disk. So a lane that is stuck in a write()
// delays no other: a dead disk does not block the console. A lane's thread starts with its first
// write.
// A terminal can have a footer, a last line that is rewritten in place: only the thread that writes
// the other lines knows when to erase and redraw it. A worker's progress bar replaces the
// launcher's own footer, and a part of a line (a prompt) replaces both.
// Promises: bytes of one target arrive in order; a target that fails is reported once and then
// skipped; a queue is bounded by its users, which check queued_bytes() before they add more; a lane
// that takes nothing never delays the end of the job. On a pipe or a terminal one write() is at
// most PIPE_BUF bytes, whole lines if they fit, so no other line comes between them (pipe(7)).
// Traps: these threads must never fork. All signals are blocked in them, so that they reach the
// loop. O_NONBLOCK would change the console for all that share it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/files/owned_dir.h"

namespace ddp::launcher {

class FileWriter {
 public:
  using Target = std::size_t;
  static constexpr Target kStdout = 0;
  static constexpr Target kStderr = 1;
  /// At the end of a job a lane that takes no byte for this time is given up.
  static constexpr std::chrono::seconds kStallWait{3};

  FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Blocks: until all is written; a lane that takes nothing is given up after kStallWait.
  ~FileWriter();

  /// Opens a file of that name in `directory`. The files' thread makes it at once, even if nothing
  /// is written, as tail -f and log collectors expect. Errors: SystemError if this is the first
  /// file and the thread cannot be started; a file that cannot be opened gives one line on stderr.
  Target open(std::shared_ptr<const OwnedDir> directory, const std::string& name);
  /// Closes a file after all earlier writes. open() may return the number again.
  void close(Target target);

  /// Removes that entry of `directory` with all its contents, after all earlier writes; the caller
  /// does not wait. An entry that cannot be removed stays. Errors: as open().
  void remove(std::shared_ptr<const OwnedDir> directory, const std::string& name);

  void write(Target target, std::string bytes);

  /// Whether stderr is a terminal whose last line can be rewritten (can_rewrite()).
  [[nodiscard]] bool has_terminal() const;
  /// Shows the launcher's footer below all other lines of the terminal, cut to its width; empty:
  /// none. No effect without a terminal.
  void show_footer(std::string text);
  /// Shows a progress bar in place of the footer, as long as it is not empty.
  void show_bar(std::string text);
  /// Shows a part of a line in place of both, as long as it is not empty.
  void show_part(std::string text);
  /// The columns that a footer may use.
  [[nodiscard]] static std::size_t footer_width();

  /// Bytes queued in the lane of `target`.
  [[nodiscard]] std::size_t queued_bytes(Target target) const;
  /// For how long the lane of `target` has taken no byte although some are queued.
  [[nodiscard]] std::chrono::nanoseconds stalled_for(Target target) const;
  /// Whether the target failed, or its lane was given up: writes to it are lost.
  [[nodiscard]] bool has_failed(Target target) const;

  /// Gives up the log files if they have taken nothing for kStallWait, and prints one line.
  void give_up_stuck_files();

 private:
  struct Output;
  class Lane;
  struct Place {
    Lane* lane = nullptr;
    Output* output = nullptr;
  };

  void draw_footer();

  // Owners of a lane: the FileWriter, and the lane's thread, which may be left behind in a write().
  std::shared_ptr<Lane> errors_;
  std::shared_ptr<Lane> output_;
  std::shared_ptr<Lane> files_;
  std::vector<Place> places_;  // by target
  std::string footer_;
  std::string bar_;
  std::string part_;
};

}  // namespace ddp::launcher
