#include "launcher/run/stack_collector.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <utility>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/text/join_words.h"
#include "launcher/os/descendants.h"
#include "launcher/os/process.h"
#include "launcher/os/process_state.h"
#include "launcher/os/program.h"
#include "launcher/plan/hang/stack_reader.h"
#include "launcher/plan/output/line_splitter.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kCheckPause(10);  // between two checks of which have ended
constexpr std::size_t kMaxText = 1 << 20;             // output of one py-spy

/// The path of py-spy; empty: not installed.
std::string find_py_spy(const JobSpec& spec) {
  try {
    return find_program("py-spy", find_variable(spec.environment, "PATH").value_or(""));
  } catch (const SystemError&) {
    return "";
  }
}

bool is_gone(const StackSource& source) {
  const ProcessState state = read_process_state(source.pid);
  return state.session != source.session || state.state == 'Z' || state.state == 'X';
}

std::string names_of(const std::vector<StackSource>& sources, bool has_spies) {
  std::string names = has_spies ? "py-spy" : "";
  for (const int signal : {SIGUSR2, SIGABRT}) {
    const bool is_used = std::ranges::any_of(sources, [&](const StackSource& one) {
      return one.signal == signal && !(has_spies && one.is_python);
    });
    if (is_used) add_word(names, signal_name(signal));
  }
  return names;
}

}  // namespace

/// One run of py-spy.
struct StackCollector::Spy {
  Spy(asio::io_context& io, StackSource looked_at, int read_end)
      : source(looked_at), pipe(io, read_end) {}
  const StackSource source;
  asio::posix::stream_descriptor pipe;
  std::unique_ptr<Process> process;
  std::string text;
  bool has_ended = false;
};

StackCollector::StackCollector(const AgentParts& parts, WorkerGroup& group)
    : parts_(parts), group_(group) {}

StackCollector::~StackCollector() = default;

asio::awaitable<void> StackCollector::collect() {
  std::vector<Session> sessions;
  for (const auto& worker : group_.workers()) {
    if (!worker->ending) sessions.push_back(worker->session);
    worker->errors->expect_stacks();
  }
  std::vector<SessionProcess> processes = session_processes(std::move(sessions));
  for (const auto& worker : group_.workers()) {
    if (worker->program_line.empty() || worker->ending) continue;
    const std::vector<pid_t> tree = tree_of(processes, program_of(*worker));
    std::erase_if(processes, [&](const SessionProcess& process) {
      return process.session == worker->pid && std::ranges::find(tree, process.pid) == tree.end();
    });
  }
  sources_ = choose_stack_sources(processes);
  const std::string py_spy = find_py_spy(parts_.spec);
  std::vector<StackSource> seen;
  if (!py_spy.empty()) {
    std::ranges::copy_if(
        sources_, std::back_inserter(seen), [](const auto& one) { return one.is_python; });
  }
  const std::string names = names_of(sources_, !seen.empty());
  if (names.empty()) co_return;
  parts_.console.warning("asking the workers for their stacks (" + names +
                         "); they are in the report.");
  ask(SIGUSR2);
  start_spies(py_spy, seen);
  // SIGABRT comes last, as it ends the process and as an attached py-spy stops it. A process that
  // py-spy has read gets none.
  const bool has_time = co_await wait(kSpyWait, &StackCollector::have_spies_ended);
  co_await end_spies();
  if (!has_time) co_return;
  ask(SIGABRT);
  group_.wake();  // a frozen process prints nothing
  co_await wait(kPrintWait, &StackCollector::have_all_printed);
}

/// Sends `signal` to those of `sources_` that print on it and that py-spy has not read.
void StackCollector::ask(int signal) {
  for (const StackSource& source : sources_) {
    Worker* const worker = worker_of(source);
    if (source.signal != signal || worker == nullptr || worker->py_spy_stacks) continue;
    if (!signal_in_session(source.pid, worker->session, signal)) continue;
    asked_.push_back(source);
    // A process that ends by SIGABRT counts as ended by us.
    if (signal == SIGABRT) worker->stop_sent = worker->abort_sent = true;
  }
}

void StackCollector::start_spies(const std::string& program,
                                 const std::vector<StackSource>& sources) {
  std::vector<pid_t> pids;
  for (const StackSource& source : sources) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) break;  // the signal still works
    const Descriptor write_end(ends[1]);
    auto spy = std::make_unique<Spy>(parts_.io, source, ends[0]);
    ProcessSpec process;
    process.label = "py-spy";
    process.executable = program;
    process.arguments = {program, "dump", "--full-filenames", "--pid", std::to_string(source.pid)};
    process.environment = parts_.spec.environment;
    process.stdout_fd = process.stderr_fd = write_end.fd();
    try {
      spy->process = std::make_unique<Process>(parts_.io, process);
    } catch (const SystemError& error) {
      parts_.console.warning(error.what());
    }
    if (!spy->process) break;
    pids.push_back(spy->process->pid());
    spies_.push_back(std::move(spy));
    asio::co_spawn(parts_.io, read(*spies_.back()), rethrow);
  }
  group_.set_helpers(std::move(pids));
}

asio::awaitable<void> StackCollector::read(Spy& spy) {
  std::array<char, 4096> buffer;
  while (true) {
    const auto [error, size] = co_await spy.pipe.async_read_some(asio::buffer(buffer), kResult);
    if (error) break;
    if (spy.text.size() < kMaxText) spy.text.append(buffer.data(), size);
  }
  spy.has_ended = true;
  parts_.inbox.push(OutputEnded());
}

/// Ends py-spy's runs and keeps their stacks.
asio::awaitable<void> StackCollector::end_spies() {
  for (const auto& spy : spies_)
    spy->pipe.close();
  // Closing the pipes ends the coroutines that read them; the spies must outlive those.
  bool kills = false;
  while (!have_spies_ended()) {
    const std::optional<AgentEvent> event = co_await parts_.inbox.next(kNoDeadline);
    if (event) group_.note(*event);
    kills = kills || (event && std::holds_alternative<KillCommanded>(*event));
  }
  if (kills) parts_.inbox.push(KillCommanded());  // for the code that ends the group
  std::map<Worker*, StackReader> readers;         // a worker may be several processes
  for (const auto& spy : spies_) {
    StackReader& reader = readers[worker_of(spy->source)];
    LineSplitter().feed(spy->text, [&](std::string_view line) {
      if (!reader.take(line)) parts_.console.debug("py-spy: " + std::string(line));
    });
  }
  for (const auto& [worker, reader] : readers)
    if (worker != nullptr && !reader.is_empty()) worker->py_spy_stacks = reader.result();
  spies_.clear();
  group_.set_helpers({});
}

/// Suspends: until `is_done`, at most `limit`. False: the job is stopped or killed, so do not wait
/// for more stacks.
asio::awaitable<bool> StackCollector::wait(Clock::duration limit,
                                           bool (StackCollector::*is_done)() const) {
  const Deadline deadline = Clock::now() + limit;
  while (group_.alive() > 0 && !(this->*is_done)() && Clock::now() < deadline) {
    const Deadline look = std::min<Deadline>(deadline, Clock::now() + kCheckPause);
    const std::optional<AgentEvent> event = co_await parts_.inbox.next(look);
    if (!event) continue;
    group_.note(*event);
    if (std::holds_alternative<KillCommanded>(*event)) {
      parts_.inbox.push(KillCommanded());  // for anyone who ends the group
      co_return false;
    }
    const auto* const signal = std::get_if<SignalReceived>(&*event);
    if (signal != nullptr && signal->stops) co_return false;
  }
  co_return true;
}

bool StackCollector::have_spies_ended() const {
  return std::ranges::all_of(spies_, [](const auto& spy) { return spy->has_ended; });
}

bool StackCollector::have_all_printed() const {
  return std::ranges::all_of(asked_, [this](const StackSource& source) {
    const Worker* const worker = worker_of(source);
    return is_gone(source) || worker == nullptr || worker->errors->stacks()->is_whole();
  });
}

/// The worker to whose session the process belongs; null: that worker has ended.
Worker* StackCollector::worker_of(const StackSource& source) const {
  for (const auto& worker : group_.workers())
    if (worker->pid == source.session && !worker->ending) return worker.get();
  return nullptr;
}

}  // namespace ddp::launcher
