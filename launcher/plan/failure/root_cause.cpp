#include "launcher/plan/failure/root_cause.h"

#include <algorithm>
#include <tuple>

#include "common/exit_code.h"

namespace ddp::launcher {
namespace {

/// The rows of judge()'s table. Within a kind of ending, a worker that was told to end comes after
/// those that were not, whatever the clocks of two nodes say: it was told because of a failure. If
/// one worker was asked to stop, all leave together.
auto precedence(const Ending& ending) {
  return std::tuple(was_ended_by_us(ending),
                    stopped_after_checkpoint(ending),
                    stopped_after_checkpoint(ending) && !ending.was_asked_elsewhere,
                    ending.status.exit_code() == exit_code::kLostPeer,
                    ending.stop_sent,
                    ending.at,
                    ending.rank);
}

bool has_finished(const Ending& ending) {
  return ending.status.is_success() && ending.opened_page && ending.phase == Phase::finished;
}

/// Whether a worker that was to save and leave failed instead, by its exit code.
bool failed_while_stopping(const Ending& ending) {
  const int code = ending.status.code;
  return ending.opened_page && ending.status.signal == 0 &&
         (code == exit_code::kInternal || code == exit_code::kDiverged);
}

/// The first rank that had no progress page, or only opened one, was needed by others, and left
/// with 0 before `failure`.
std::optional<std::size_t> find_early_exit(std::span<const Ending> endings, const Ending& failure) {
  if (failure.had_left_store) return std::nullopt;  // it needed nobody any more
  const bool counted_on_members = failure.joined_store && !failure.opened_page;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    const Ending& ending = endings[i];
    const bool left = may_exit_early(ending) && ending.status.is_success();
    const bool was_missed = ending.joined_store ? counted_on_members : failure.waited_in_store;
    if (!left || !was_missed || ending.at >= failure.at) continue;
    if (!first || ending.at < endings[*first].at) first = i;
  }
  return first;
}

std::optional<std::size_t> find_frozen(std::span<const Ending> endings) {
  for (std::size_t i = 0; i < endings.size(); ++i)
    if (endings[i].was_frozen && was_ended_by_us(endings[i])) return i;
  return std::nullopt;
}

int code_of(const Ending& failure) {
  const int code = failure.status.exit_code();
  return code != 0 ? code : exit_code::kInternal;
}

void sort_by_time(std::span<const Ending> endings, std::vector<std::size_t>& failures) {
  std::ranges::sort(failures, [&](std::size_t a, std::size_t b) {
    return std::tuple(endings[a].at, endings[a].rank) < std::tuple(endings[b].at, endings[b].rank);
  });
}

/// Makes all other failures victims, in order of time.
Failed blame(std::span<const Ending> endings,
             std::size_t root_cause,
             std::vector<std::size_t> failures,
             int exit_code) {
  std::erase(failures, root_cause);
  sort_by_time(endings, failures);
  return Failed{root_cause, std::move(failures), exit_code};
}

NodeLost blame_node(std::span<const Ending> endings,
                    NodeLost lost,
                    std::vector<std::size_t> failures) {
  sort_by_time(endings, failures);
  lost.victims = std::move(failures);
  return lost;
}

}  // namespace

Outcome judge(std::span<const Ending> endings, const EndFacts& facts) {
  if (facts.requested_signal) {
    // The signal came too late for a job whose every rank says that it had finished.
    const bool finished = std::ranges::all_of(endings, has_finished);
    if (finished && !endings.empty()) return Succeeded();
    return Stopped{*facts.requested_signal};
  }
  if (facts.launcher_failure) return *facts.launcher_failure;
  std::vector<std::size_t> failures;
  for (std::size_t i = 0; i < endings.size(); ++i)
    if (has_failed(endings[i]) || stopped_after_checkpoint(endings[i])) failures.push_back(i);
  if (facts.hung_rank) {
    for (std::size_t i = 0; i < endings.size(); ++i) {
      if (endings[i].rank == *facts.hung_rank)
        return blame(endings, i, std::move(failures), exit_code::kTimeout);
    }
  }
  if (facts.lost_node) {
    const bool has_earlier = std::ranges::any_of(failures, [&](std::size_t i) {
      const Ending& ending = endings[i];
      const bool is_own = !was_ended_by_us(ending) && !stopped_after_checkpoint(ending) &&
                          ending.status.exit_code() != exit_code::kLostPeer;
      return is_own && ending.at < facts.last_heard;
    });
    if (!has_earlier) return blame_node(endings, *facts.lost_node, std::move(failures));
  }
  if (failures.empty()) return Succeeded();
  std::ranges::sort(failures, [&](std::size_t a, std::size_t b) {
    return precedence(endings[a]) < precedence(endings[b]);
  });
  const auto followed = [](const Ending& ending) {
    return ending.opened_page ? stopped_after_checkpoint(ending) : !has_failed(ending);
  };
  if (std::ranges::all_of(endings, followed)) return Stopped{0, endings[failures.front()].rank};
  const std::size_t failure = failures.front();
  const int code = code_of(endings[failure]);
  std::size_t root_cause = failure;
  if (const auto early = find_early_exit(endings, endings[failure])) root_cause = *early;
  const bool gave_up = endings[failure].status.signal == 0;  // a signal did not end it
  if (const auto frozen = find_frozen(endings); frozen && gave_up) root_cause = *frozen;
  return blame(endings, root_cause, std::move(failures), code);
}

int exit_code_of(const Outcome& outcome, std::span<const Ending> endings) {
  if (const auto* const launch = std::get_if<LauncherFailed>(&outcome)) return launch->code;
  if (const auto* const failed = std::get_if<Failed>(&outcome)) return failed->exit_code;
  if (const auto* const stopped = std::get_if<Stopped>(&outcome)) {
    // 143 tells a scheduler that requeues the job that all workers have saved.
    const bool saved = std::ranges::all_of(endings, exited_after_checkpoint);
    const bool asked_worker = stopped->asked_rank >= 0;
    if (asked_worker || (saved && !endings.empty())) return exit_code::kTerminated;
    // A worker failed while it stopped, perhaps without its last checkpoint. A scheduler that
    // requeues jobs must not take that for a good stop.
    const auto lost = std::ranges::find_if(endings, failed_while_stopping);
    if (lost != endings.end()) return lost->status.code;
    return exit_code::of_signal(stopped->signal);
  }
  return std::holds_alternative<NodeLost>(outcome) ? exit_code::kNodeLost : exit_code::kOk;
}

}  // namespace ddp::launcher
