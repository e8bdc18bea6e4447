#include "launcher/plan/outcome.h"

#include <algorithm>
#include <csignal>
#include <tuple>

#include "common/exit_code.h"

namespace ddp::launcher {
namespace {

auto precedence(const Ending& ending) {
  return std::tuple(was_stopped(ending),
                    has_left(ending),
                    ending.status.exit_code() == exit_code::kLostPeer,
                    ending.at,
                    ending.rank);
}

bool has_finished(const Ending& ending) {
  return ending.status.is_success() && ending.opened_page && ending.phase == Phase::finished;
}

bool has_saved(const Ending& ending) {
  return ending.opened_page && ending.status.exit_code() == exit_code::kStoppedAfterCheckpoint;
}

}  // namespace

// A worker that dies of SIGKILL while we have sent no more than SIGTERM died of something else: the
// kernel reports a large process only after freeing its memory, so its peers may be seen first.
bool was_stopped(const Ending& ending) {
  if (!ending.stop_sent) return false;
  if (ending.status.signal == SIGKILL) return ending.kill_sent;
  return ending.status.signal == SIGTERM ||
         ending.status.exit_code() == exit_code::kStoppedAfterCheckpoint;
}

bool has_left(const Ending& ending) {
  return has_saved(ending) && !ending.stop_sent;
}

bool has_failed(const Ending& ending) {
  if (has_left(ending)) return false;
  if (!ending.status.is_success()) return true;
  return ending.opened_page && ending.phase != Phase::finished;
}

Outcome judge(std::span<const Ending> endings, std::optional<int> user_signal) {
  if (user_signal) {
    // The signal came too late for a job whose every rank says that it had finished.
    const bool finished = std::all_of(endings.begin(), endings.end(), has_finished);
    if (finished && !endings.empty()) return Succeeded();
    return Stopped{*user_signal};
  }
  std::vector<std::size_t> failures;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    if (has_failed(endings[i]) || has_left(endings[i])) failures.push_back(i);
  }
  if (failures.empty()) return Succeeded();
  std::sort(failures.begin(), failures.end(), [&](std::size_t a, std::size_t b) {
    return precedence(endings[a]) < precedence(endings[b]);
  });
  const auto followed = [](const Ending& ending) {
    return ending.opened_page ? has_left(ending) : !has_failed(ending);
  };
  if (std::all_of(endings.begin(), endings.end(), followed)) {
    return Stopped{0, endings[failures.front()].rank};
  }
  Failed failed;
  failed.root_cause = failures.front();
  failed.victims.assign(failures.begin() + 1, failures.end());
  std::sort(failed.victims.begin(), failed.victims.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(endings[a].at, endings[a].rank) < std::tuple(endings[b].at, endings[b].rank);
  });
  return failed;
}

int exit_code_of(const Outcome& outcome, std::span<const Ending> endings) {
  if (const auto* const failed = std::get_if<Failed>(&outcome)) {
    const int code = endings[failed->root_cause].status.exit_code();
    return code != 0 ? code : exit_code::kInternal;
  }
  if (const auto* const stopped = std::get_if<Stopped>(&outcome)) {
    // Workers that save before they leave say so; whoever requeues the job goes by that code.
    const bool saved = std::all_of(endings.begin(), endings.end(), has_saved);
    const bool asked_worker = stopped->asked_rank >= 0;
    if (asked_worker || (saved && !endings.empty())) return exit_code::kStoppedAfterCheckpoint;
    return exit_code::of_signal(stopped->signal);
  }
  return exit_code::kOk;
}

}  // namespace ddp::launcher
