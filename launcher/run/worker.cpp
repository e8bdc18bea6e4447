#include "launcher/run/worker.h"

#include <unistd.h>

#include <csignal>

#include "common/progress/survivor_page.h"
#include "launcher/os/descendants.h"
#include "launcher/os/process_state.h"
#include "launcher/plan/rank_name.h"
#include "launcher/plan/start/wrapper.h"

namespace ddp::launcher {

std::string name_worker(const Worker& worker) {
  return name_rank(worker.placement.rank, worker.pid);
}

pid_t program_of(Worker& worker) {
  const pid_t leader = worker.pid;
  if (worker.program_line.empty() || worker.process->is_reaped()) return leader;
  if (worker.program != 0 && read_process_state(worker.program).session == leader)
    return worker.program;
  const pid_t found =
      find_wrapped(session_processes({worker.session}), worker.program_line, leader);
  worker.program = found == leader ? 0 : found;  // it may come yet
  return found;
}

void send_signal(Worker& worker, int signal) {
  const pid_t program = signal == SIGKILL ? worker.pid : program_of(worker);
  if (program == worker.pid) return worker.process->signal(signal);
  const pid_t group = ::getpgid(program);
  for (const pid_t pid : tree_of(session_processes({worker.session}), program))
    if (::getpgid(pid) == group) signal_in_session(pid, worker.session, signal);
}

bool forward_signal(Worker& worker, int signal) {
  const pid_t program = program_of(worker);
  if (program == worker.pid) return worker.process->forward(signal);
  return catches_signal(program, signal) && signal_in_session(program, worker.session, signal);
}

bool may_survive(const Worker& worker) {
  return !worker.ending && !worker.is_survivor && is_opened(*worker.page) &&
         survivor_page(*worker.page).can_wait != 0;
}

bool keep_if_waiting(Worker& worker) {
  SurvivorPage& page = survivor_page(*worker.page);
  page.is_ending = 1;
  worker.is_survivor = page.waits != 0;
  page.is_survivor = worker.is_survivor ? 1 : 0;
  return worker.is_survivor;
}

void kill_if_stopped(Worker& worker) {
  if (read_main_thread_state(program_of(worker)).state != 'T') return;
  worker.kill_sent = true;
  send_signal(worker, SIGKILL);
}

void set_ending(Worker& worker, ExitStatus status, Clock::duration after) {
  Ending ending;
  ending.rank = worker.placement.rank;
  ending.status = status;
  ending.at = after;
  ending.stop_sent = worker.stop_sent;
  ending.kill_sent = worker.kill_sent;
  ending.abort_sent = worker.abort_sent;
  ending.opened_page = is_opened(*worker.page);
  ending.phase = phase_of(*worker.page);
  ending.was_asked_elsewhere =
      ending.opened_page && worker.page->was_asked_elsewhere.load(std::memory_order_relaxed) != 0;
  worker.ending = ending;
  worker.ended_at = std::chrono::system_clock::now();
}

}  // namespace ddp::launcher
