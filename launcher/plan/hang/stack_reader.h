// Parses the stacks that a process prints on request, line by line. Formats: Python's faulthandler
// (SIGABRT, or SIGUSR2 where a program registers it), py-spy, and ddp-worker on SIGUSR2. The input
// is not trusted: other lines are rejected, and memory is bounded. Pure.
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

  /// Parses one line. False: the line belongs to no stack.
  bool take(std::string_view line);

  [[nodiscard]] bool is_empty() const { return threads_.empty(); }
  /// Whether a process has said that it printed all of its threads. Python never says so.
  [[nodiscard]] bool is_whole() const { return is_whole_; }

  /// All threads of all processes that printed, in order of arrival. The main thread is that of the
  /// first process that does not only wait for another one.
  [[nodiscard]] Stacks result() const;

 private:
  enum class Format { none, python, spy, cpp };
  bool take_header(std::string_view line);
  bool take_frame(std::string_view line);
  void begin_process(Format format);
  [[nodiscard]] std::size_t find_main(std::size_t begin, std::size_t end) const;
  void begin_thread(Format format, std::string_view name, bool is_main);

  Format format_ = Format::none;
  bool skips_ = false;  // the rest of a section is not parsed
  bool is_whole_ = false;
  std::vector<ThreadStack> threads_;
  std::size_t processes_ = 0;
  long pid_ = 0;                         // of the newest process, if printed
  std::vector<std::size_t> process_of_;  // by thread
};

/// Demangles a name to "ddp::worker::TrainingLoop::run": without arguments, templates, return type.
std::string readable_function(std::string_view symbol);

}  // namespace ddp::launcher
