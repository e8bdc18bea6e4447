#include "worker/train/failure/error_reporter.h"

#include <c10/util/Exception.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <typeinfo>

#include "common/error.h"
#include "common/files/files.h"
#include "worker/train/failure/throw_trace.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/failure/user_frames.h"

namespace ddp::worker {
namespace {

/// The first error about a lost GPU, with may_leave_main; null: none.
std::atomic<const Uncaught*> lost_device{nullptr};

// Only the first thread returns: it reports its error and ends the process; others wait for that.
// If the same thread calls twice, printing itself has failed (out of memory, for example).
void wait_unless_first() {
  static std::atomic<long> first{0};
  const long self = ::syscall(SYS_gettid);
  long before = 0;
  if (first.compare_exchange_strong(before, self)) return;
  if (before == self) ::_exit(exit_code::kInternal);
  while (true)
    ::pause();
}

[[noreturn]] void on_terminate() noexcept {
  wait_unless_first();
  const ErrorReporter& reporter = error_reporter();
  if (const Uncaught* const earlier = lost_device) ::_exit(reporter.print(earlier->error));
  const bool is_main = ::syscall(SYS_gettid) == ::getpid();
  const Uncaught uncaught = as_terminating_error(is_main && reporter.may_leave_main);
  ::_exit(reporter.print(uncaught.error, uncaught.stack));
}

// The exception is constructed, and nothing is unwound yet.
void on_throw(const void* object, const std::type_info& type) noexcept {
  if (type != typeid(c10::AcceleratorError)) return;
  const auto& error = *static_cast<const c10::AcceleratorError*>(object);
  if (!is_lost_device(error.get_error_code())) return;
  const ErrorReporter& reporter = error_reporter();
  if (!reporter.may_leave_main) {
    wait_unless_first();
    ::_exit(reporter.print(as_error(error).error));
  }
  if (lost_device == nullptr) lost_device = new Uncaught(as_error(error));
}

/// Writes torchelastic's error file, which launchers show as the cause of a failure: `{"message":
/// {"message": ..., "extraInfo": {"py_callstack": ..., "timestamp": "...", "rank": ...}}}`, the
/// form that torchrun reads, with the rank added (-1: none yet). Does nothing if `path` is empty.
/// Errors: none; a launcher that finds no file shows the exit code.
void write_error_file(const std::string& path, int rank, const std::exception& error) {
  if (path.empty()) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  boost::json::object extra;
  extra["py_callstack"] = error.what();
  extra["timestamp"] =
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  if (rank >= 0) extra["rank"] = rank;
  const std::string text = error.what();
  boost::json::object message;
  message["message"] = text.substr(0, text.find("\nException raised from"));
  message["extraInfo"] = std::move(extra);
  boost::json::object file;
  file["message"] = std::move(message);
  try {
    replace_file(path, boost::json::serialize(file));
  } catch (const SystemError&) {
    return;  // the disk may be the cause of the error
  }
}

}  // namespace

int ErrorReporter::print(const Error& error, const std::vector<const void*>& stack) const {
  const int code = print_error(program, error);
  record(error);
  std::string frames;
  for (const std::string& frame : user_frames(stack))
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
  static auto& reporter = *new ErrorReporter();
  return reporter;
}

void report_on_terminate() {
  std::set_terminate(on_terminate);
}

void report_lost_gpus() {
  watch_throws(on_throw);
}

}  // namespace ddp::worker
