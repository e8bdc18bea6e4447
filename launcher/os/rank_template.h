// The template of the ranks of a node, a process that is copied for each of them
// (docs/warm-start.md). For ddp-worker it is one that has loaded LibTorch, for a Python program an
// interpreter that has imported modules and has run nothing of the user's. The text of the latter
// is python_template.py, which this program carries in itself. It is made for one job, or found in
// the pool of warm ones (os/warm_pool), or made for the pool.
// A template of one job is our child, and its copies are made by clone(2) with CLONE_PARENT, so
// they are our children, as workers that os/process has started. A warm one cannot give us
// children: it forks itself for this job, and that fork is the parent of the copies, follows them
// for us, and adopts their orphans. Of os/ it uses process, process_state, descriptors and
// warm_pool.
// Promises: what serves this job ends with this object and with us; a warm template goes on. A copy
// runs nothing before we have taken it; one that we do not take ends by itself. Whatever the
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
#include "launcher/plan/start/preload.h"

namespace ddp::launcher {

class RankTemplate {
 public:
  /// Starts it. `rank`: how a rank would be started; its arguments begin with the interpreter and
  /// "-u". `place`: of a template that is to stay warm; nothing: it is for this job alone. Errors:
  /// SystemError.
  RankTemplate(asio::io_context& io,
               const ProcessSpec& rank,
               const std::vector<std::string>& modules,
               std::optional<WarmPool::Place> place);
  /// Starts ddp-worker as one (worker/start/rank_template). Errors: SystemError.
  static std::shared_ptr<RankTemplate> start_worker(asio::io_context& io, const ProcessSpec& rank);
  /// Starts nothing: for a warm template that exists already. Call join() next.
  RankTemplate(asio::io_context& io, const ProcessSpec& rank, TemplateUse use = TemplateUse::warm);
  RankTemplate(const RankTemplate&) = delete;
  RankTemplate& operator=(const RankTemplate&) = delete;
  ~RankTemplate();

  /// What it tells next. Suspends: until it tells, or has ended, or end() is called.
  asio::awaitable<TemplateMessage> listen();

  /// Has the warm one at the other end of `connection` fork itself for this job. Returns why it
  /// cannot; empty: it has. Blocks: at most kCopyLimit.
  [[nodiscard]] std::string join(const std::string& key,
                                 const std::string& agent_id,
                                 Descriptor connection);

  /// Whether a signal or a debugger has stopped it.
  [[nodiscard]] bool is_stopped() const;

  /// Copies it for a rank. The alternative: why there is no copy; then the template is not to be
  /// trusted. Blocks: until the copy has told its pid, at most kCopyLimit. Errors: SystemError, as
  /// of Process.
  [[nodiscard]] std::variant<std::unique_ptr<Process>, std::string> copy(const ProcessSpec& rank);

  /// Whether the warm template's fork, the parent of the copies, was ended by somebody else. Then
  /// nobody has adopted their orphans.
  [[nodiscard]] bool has_died() const;

  /// Makes no more copies. Those that run go on.
  void retire();
  [[nodiscard]] bool is_retired() const { return is_retired_; }

  /// Ends what serves this job. A warm one that is ready goes on.
  void end();

  /// What makes the copies; 0: it has ended.
  [[nodiscard]] pid_t pid() const;
  /// The template itself, if it is a child of ours; else 0.
  [[nodiscard]] pid_t child() const { return process_ ? process_->pid() : 0; }
  /// What is the parent of the copies, and adopts their orphans; 0: we do.
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
  Descriptor errors_;  // what Python prints before it listens to us
  const TemplateUse use_;
  const Environment base_;
  std::vector<std::string> arguments_;  // of a rank
  std::unique_ptr<Process> process_;
  bool is_retired_ = false;
  std::shared_ptr<JobTemplate> job_;  // owners: this, and its copies
};

}  // namespace ddp::launcher
