// What a process that is asked where it stands prints, read line by line: Python's faulthandler
// (SIGABRT, or SIGUSR2 where a program registers it), py-spy, and ddp-worker on SIGUSR2. It
// believes nothing: lines of anything else are not taken, and memory is bounded. Pure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "launcher/plan/hang/stacks.h"

namespace ddp::launcher {

class StackReader {
 public:
  static constexpr std::size_t kMaxThreads = 128;
  static constexpr std::size_t kMaxFrames = 64;  // of one thread
  static constexpr std::size_t kMaxText = 256;   // bytes of one name

  /// Takes a line in. False: it belongs to no stack.
  bool take(std::string_view line);

  [[nodiscard]] bool is_empty() const { return threads_.empty(); }
  /// A process has said that these were all of its threads; Python does not.
  [[nodiscard]] bool is_whole() const { return is_whole_; }

  /// All threads of all processes that printed, in the order in which they came. The main thread is
  /// that of the first process that does not only wait for another.
  [[nodiscard]] Stacks result() const;

 private:
  enum class Format { none, python, spy, cpp };
  bool take_header(std::string_view line);
  bool take_frame(std::string_view line);
  void begin_process(Format format);
  [[nodiscard]] std::size_t find_main(std::size_t begin, std::size_t end) const;
  void begin_thread(Format format, std::string_view name, bool is_main);

  Format format_ = Format::none;
  bool skips_ = false;  // the rest of a text that is not of use
  bool is_whole_ = false;
  std::vector<ThreadStack> threads_;
  std::size_t processes_ = 0;
  long pid_ = 0;                         // of the newest one, where it is told
  std::vector<std::size_t> process_of_;  // by thread
};

/// "ddp::worker::TrainingLoop::run" of a mangled name: without arguments, templates, return type.
std::string readable_function(std::string_view symbol);

}  // namespace ddp::launcher
