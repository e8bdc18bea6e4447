#include "worker/train/failure/error_reporter.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <exception>

#include "worker/train/failure/error_file.h"
#include "worker/train/failure/own_frames.h"
#include "worker/train/failure/uncaught.h"

namespace ddp::worker {
namespace {

// The first thread that comes reports the error and ends the process; others wait for that. If the
// same thread comes twice, printing itself has failed (out of memory, for example).
[[noreturn]] void on_terminate() noexcept {
  static std::atomic<long> first{0};
  const long self = ::syscall(SYS_gettid);
  long before = 0;
  if (!first.compare_exchange_strong(before, self)) {
    if (before == self) ::_exit(exit_code::kInternal);
    while (true)
      ::pause();
  }
  const ErrorReporter& words = error_reporter();
  const bool is_main = self == ::getpid();
  const Uncaught uncaught = as_terminating_error(is_main && words.may_leave_main);
  ::_exit(words.print(uncaught.error, uncaught.stack));
}

}  // namespace

int ErrorReporter::print(const Error& error, const std::vector<const void*>& stack) const {
  const int code = print_error(program, error);
  record(error);
  std::string frames;
  for (const std::string& frame : own_frames(stack))
    frames += "\n  in " + frame;
  if (frames.empty()) return code;
  (void)print_error(program, Error(frames.substr(1), code));
  record(Error(error.what() + frames, code));
  return code;
}

void ErrorReporter::record(const Error& error) const {
  write_error_file(error_file, rank, error);
}

ErrorReporter& error_reporter() {
  static auto& words = *new ErrorReporter();
  return words;
}

void report_on_terminate() {
  std::set_terminate(on_terminate);
}

}  // namespace ddp::worker
