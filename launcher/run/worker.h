// One worker of this node: its process, its page and its streams, and how it has ended.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/progress/progress_page.h"
#include "launcher/os/log_stream.h"
#include "launcher/os/process.h"
#include "launcher/plan/failure/ending.h"
#include "launcher/plan/hang/stacks.h"
#include "launcher/plan/start/placement.h"
#include "launcher/plan/start/session.h"

namespace ddp::launcher {

/// One worker. When it has ended, this has what the report needs.
struct Worker {
  Placement placement;
  std::filesystem::path error_file;  // empty: none
  MappedProgressPage page = MappedProgressPage::create();
  std::unique_ptr<LogStream> output;
  std::unique_ptr<LogStream> errors;
  std::unique_ptr<Process>
      process;                // declared after the streams: gone before the pipes it writes to
  pid_t pid = 0;              // for the report; kept after the reaping
  std::string program_line;   // of the program that a wrapper starts; empty: no wrapper
  pid_t program = 0;          // its process, once it was seen
  Session session;            // the session that it leads
  bool has_terminal = false;  // of its own (--debug)
  std::vector<std::string> terminal_lines;  // the last ones there
  bool stop_sent = false;
  bool kill_sent = false;
  bool abort_sent = false;
  bool is_survivor = false;             // alive, and waits for the next round
  std::optional<Stacks> py_spy_stacks;  // its stacks, as py-spy read them
  std::optional<Ending> ending;
  Clock::time_point started_at;
  std::chrono::system_clock::time_point ended_at;  // shown, never compared
};

/// "rank 3 (pid 17)".
std::string name_worker(const Worker& worker);

/// The process that is the worker's program: below a wrapper's (--wrap), if there is one.
pid_t program_of(Worker& worker);

/// Sends a signal to a worker's group. A wrapper does not get it if its program can: it would end
/// before the program, which then had no grace left. The program may have a group of its own, as
/// under a debugger.
void send_signal(Worker& worker, int signal);

/// Sends a signal to the worker's program if that has a handler for it. False: it has none.
bool forward_signal(Worker& worker, int signal);

/// Whether the worker can wait for the next round, and is not a survivor yet.
bool may_survive(const Worker& worker);
/// Tells the worker that the round ends. True: it waits, and is a survivor now.
bool keep_if_waiting(Worker& worker);
/// Kills a stopped worker (SIGSTOP) whose round ends. It cannot begin to wait, and as long as it
/// lives its connections hold others in their collectives, so that these could not either.
void kill_if_stopped(Worker& worker);

/// Sets the ending of a worker that has ended `after` the begin of its round.
void set_ending(Worker& worker, ExitStatus status, Clock::duration after);

}  // namespace ddp::launcher
