// The template of a node's ranks: a process that is copied for each of them (docs/warm-start.md).
// For ddp-worker it has loaded LibTorch. For a Python program it is an interpreter that has
// imported modules and has run nothing of the user's; it runs python_template.py, which this
// program carries in itself. A template is made for one job, or found in the pool of warm templates
// (os/warm_pool), or made for that pool.
// A template of one job is our child. It makes its copies by clone(2) with CLONE_PARENT, so they
// are our children, too, like the workers that os/process starts. A warm template serves the jobs
// of several agents and cannot give children to each, so it forks itself for this job. That fork is
// the parent of the copies; it follows them for us, and adopts their orphans. Of os/ this file uses
// process, process_state, descriptors and warm_pool.
// Promises: the process that serves this job ends with this object and with us; a warm template
// stays. A copy runs nothing before we have taken it, and ends by itself if we do not. Whatever the
// template does, nothing here blocks for longer than kCopyLimit.
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
#include "launcher/os/warm_pool.h"
#include "launcher/plan/start/template_messages.h"

namespace ddp::launcher {

class RankTemplate {
 public:
  /// Starts a Python template. `rank`: how a rank would be started; its arguments begin with the
  /// interpreter and "-u". `warm_socket`: where a template that is to stay warm will listen;
  /// nothing: it is for this job alone. Errors: SystemError.
  RankTemplate(asio::io_context& io,
               const ProcessSpec& rank,
               const std::vector<std::string>& modules,
               std::optional<WarmPool::BoundSocket> warm_socket);
  /// Starts ddp-worker as a template (worker/start/rank_template). Errors: SystemError.
  static std::shared_ptr<RankTemplate> start_worker(asio::io_context& io, const ProcessSpec& rank);
  /// Starts nothing: for a warm template that exists already. Call join() next.
  RankTemplate(asio::io_context& io, const ProcessSpec& rank, TemplateUse use = TemplateUse::warm);
  RankTemplate(const RankTemplate&) = delete;
  RankTemplate& operator=(const RankTemplate&) = delete;
  ~RankTemplate();

  /// The template's next message. Suspends: until one comes, the template has ended, or end() is
  /// called.
  asio::awaitable<TemplateMessage> listen();

  /// Lets the warm template at the other end of `connection` fork itself for this job. Returns why
  /// it did not; empty: it did. Blocks: at most kCopyLimit.
  [[nodiscard]] std::string join(const std::string& key,
                                 const std::string& agent_id,
                                 Descriptor connection);

  /// Whether a signal or a debugger has stopped the process that makes the copies.
  [[nodiscard]] bool is_stopped() const;

  /// Copies the template for a rank. The text instead: why there is no copy; then the template must
  /// not be used again. Blocks: until the copy has sent its pid, at most kCopyLimit. Errors:
  /// SystemError, as of Process.
  [[nodiscard]] std::variant<std::unique_ptr<Process>, std::string> copy(const ProcessSpec& rank);

  /// Whether the warm template's fork, the parent of the copies, was ended by somebody else. Then
  /// nobody has adopted their orphans.
  [[nodiscard]] bool has_died() const;

  /// From now on no copies are made. Those that run go on.
  void retire();
  [[nodiscard]] bool is_retired() const { return is_retired_; }

  /// Ends the process that serves this job. A warm template that is ready stays.
  void end();

  /// The process that makes the copies; 0: it has ended.
  [[nodiscard]] pid_t pid() const;
  /// The template itself, if it is a child of ours; else 0.
  [[nodiscard]] pid_t child() const { return process_ ? process_->pid() : 0; }
  /// The process that is the parent of the copies and adopts their orphans; 0: we are.
  [[nodiscard]] pid_t parent_of_copies() const;
  /// Reaps the orphans that have ended.
  void reap_orphans();

  static constexpr std::chrono::seconds kCopyLimit{3};

 private:
  class JobTemplate;
  void start(ProcessSpec spec, Descriptor socket, int theirs);
  [[nodiscard]] std::string await_answer(int channel, pid_t from, std::string& problem) const;

  asio::io_context& io_;
  asio::posix::stream_descriptor socket_;
  Descriptor errors_;  // stdout and stderr of the template, for its last line
  const TemplateUse use_;
  const Environment base_;
  std::vector<std::string> arguments_;  // of a rank
  std::unique_ptr<Process> process_;
  bool is_retired_ = false;
  std::shared_ptr<JobTemplate> job_;  // owners: this, and its copies
};

}  // namespace ddp::launcher
