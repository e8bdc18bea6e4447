// A program of the user's that is fed on its standard input. Its own output goes where ours does.
// It is in a process group of its own: the Ctrl-C that stops a training leaves it the last lines.
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
  /// What still runs of its group is killed.
  ~Process();

  /// As much as it takes for now, without waiting: how many bytes. Nothing: it reads no more.
  std::optional<std::size_t> feed(std::string_view bytes);
  /// Blocks: until it takes more, or `limit` is over.
  void wait_for_room(std::chrono::milliseconds limit) const;

  /// It sees the end of its input.
  void close_input();
  /// How it ended, as "it ended with exit code 3"; nothing: it runs when `deadline` comes. "" is an
  /// end with 0, or one that was told before. Blocks: until then.
  std::optional<std::string> wait_until(Clock::time_point deadline);

 private:
  pid_t pid_ = -1;
  Descriptor pid_fd_;  // stays that process, no matter who has its number later
  Descriptor input_;   // none: closed
  bool is_reaped_ = false;
};

}  // namespace ddp::worker
