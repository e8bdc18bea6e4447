// The template of Python ranks: one Python process that has imported modules, has run nothing of
// the user's, and is copied for each rank (docs/warm-start.md). Its text is python_template.py,
// which this program carries in itself. A copy is made by clone(2) with CLONE_PARENT, so it is our
// child, as a worker that os/process has started. Of os/ it uses process, process_state and
// descriptors.
// Promises: the template ends with this object and with us. A copy runs nothing before we have
// taken it; one that we do not take ends by itself. Whatever the template does, nothing here blocks
// for longer than kCopyLimit.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/files/descriptor.h"
#include "launcher/os/asio.h"
#include "launcher/os/process.h"
#include "launcher/plan/start/preload.h"

namespace ddp::launcher {

class PythonTemplate {
 public:
  /// Starts it. `rank`: how a rank would be started; its arguments begin with the interpreter and
  /// "-u". Errors: SystemError.
  PythonTemplate(asio::io_context& io,
                 const ProcessSpec& rank,
                 const std::vector<std::string>& modules);
  PythonTemplate(const PythonTemplate&) = delete;
  PythonTemplate& operator=(const PythonTemplate&) = delete;
  ~PythonTemplate();

  /// What it tells next. Suspends: until it tells, or has ended, or end() is called.
  asio::awaitable<TemplateMessage> listen();

  /// Whether a signal or a debugger has stopped it.
  [[nodiscard]] bool is_stopped() const;

  /// Copies it for a rank. The alternative: why there is no copy; then the template is not to be
  /// trusted. Blocks: until the copy has told its pid, at most kCopyLimit. Errors: SystemError, as
  /// of Process.
  [[nodiscard]] std::variant<std::unique_ptr<Process>, std::string> copy(const ProcessSpec& rank);

  /// Kills and reaps it.
  void end();

  [[nodiscard]] pid_t pid() const { return process_ ? process_->pid() : 0; }  // 0: it has ended

  static constexpr std::chrono::seconds kCopyLimit{3};

 private:
  [[nodiscard]] std::string await_answer(int channel, std::string& problem) const;

  asio::io_context& io_;
  asio::posix::stream_descriptor socket_;
  Descriptor errors_;  // what Python prints before it listens to us
  Environment base_;
  std::unique_ptr<Process> process_;
};

}  // namespace ddp::launcher
