// At a hang, before the workers are ended, asks every process that can print its stacks to do so.
// py-spy reads Python's, if it is installed. SIGUSR2 makes ddp-worker and others print and go on.
// SIGABRT makes Python's faulthandler print, and ends the process. The workers' LogStreams parse
// what the processes print; py-spy's output is parsed here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/plan/hang/stack_sources.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {

class StackCollector {
 public:
  /// All arguments outlive it.
  StackCollector(const AgentParts& parts, WorkerGroup& group);
  StackCollector(const StackCollector&) = delete;
  StackCollector& operator=(const StackCollector&) = delete;
  ~StackCollector();

  /// Suspends: until all have printed or ended, at most kSpyWait + kPrintWait; less if a signal
  /// stops the job or node 0 commands SIGKILL. Errors: none; a worker may have no stacks.
  asio::awaitable<void> collect();

 private:
  struct Spy;

  void start_spies(const std::string& program, const std::vector<StackSource>& sources);
  asio::awaitable<void> read(Spy& spy);
  asio::awaitable<void> end_spies();
  asio::awaitable<bool> wait(Clock::duration limit, bool (StackCollector::*is_done)() const);
  void ask(int signal);
  [[nodiscard]] bool have_spies_ended() const;
  [[nodiscard]] bool have_all_printed() const;
  [[nodiscard]] Worker* worker_of(const StackSource& source) const;

  const AgentParts& parts_;
  WorkerGroup& group_;
  std::vector<StackSource> sources_;  // those that print their own stacks
  std::vector<StackSource> asked_;
  std::vector<std::unique_ptr<Spy>> spies_;
};

}  // namespace ddp::launcher
