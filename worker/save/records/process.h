// A child process whose standard input we write; its output goes where ours does. It has its own
// process group, so that it survives the Ctrl-C that stops a training, and gets the last lines.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/descriptor.h"

namespace ddp::worker {

class Process {
 public:
  using Clock = std::chrono::steady_clock;

  /// `command` is the program, by its path or a name in PATH, and its arguments. Errors:
  /// SystemError.
  explicit Process(const std::vector<std::string>& command);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Kills what is still running in its group.
  ~Process();

  /// Writes as many bytes as the pipe takes without waiting, and returns how many; no value: the
  /// program has closed its input.
  std::optional<std::size_t> feed(std::string_view bytes);
  /// Blocks: until the pipe can take more bytes, or `limit` is over.
  void wait_for_room(std::chrono::milliseconds limit) const;

  /// Closes the program's input.
  void close_input();
  /// How it ended, as "it ended with exit code 3"; no value: it still runs at `deadline`. "" means
  /// an end with code 0, or one that was reported before. Blocks: until it ends, or `deadline`.
  std::optional<std::string> wait_until(Clock::time_point deadline);

 private:
  pid_t pid_ = -1;
  Descriptor pid_fd_;  // refers to this process even if its pid is reused
  Descriptor input_;   // no descriptor: closed
  bool is_reaped_ = false;
};

}  // namespace ddp::worker
