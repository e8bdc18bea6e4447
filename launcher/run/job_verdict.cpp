#include "launcher/run/job_verdict.h"

#include "common/exit_code.h"
#include "common/units.h"
#include "launcher/run/report.h"

namespace ddp::launcher {

void JobVerdict::begin_round(int number, int world_size) {
  verdict_.rounds = number + 1;
  verdict_.world_size = world_size;
}

void JobVerdict::note_round(const RoundResult& round) {
  static_cast<RoundResult&>(verdict_) = round;
  if (!round.is_clean && round.exit_code == exit_code::kOk) {
    verdict_.exit_code = exit_code::kInternal;
  }
}

const std::string& JobVerdict::note_restart() {
  auto& earlier = verdict_.earlier_rounds;
  if (earlier.size() == Verdict::kRoundLines) earlier.erase(earlier.begin());
  return earlier.emplace_back(summarize_round(verdict_, verdict_.rounds - 1));
}

void JobVerdict::note_last_round(const RestartDecision& decision) {
  const bool is_bad = std::holds_alternative<Failed>(verdict_.outcome) ||
                      std::holds_alternative<NodeLost>(verdict_.outcome);
  if (!is_bad) return;
  if (decision.exit_code != verdict_.exit_code) verdict_.policy = decision.reason;
  verdict_.exit_code = decision.exit_code;
}

void JobVerdict::note_stopped(int signal) {
  verdict_.outcome = Stopped{signal};
  verdict_.exit_code = exit_code::of_signal(signal);
}

void JobVerdict::note_no_nodes(std::chrono::milliseconds limit,
                               const std::optional<NodeLost>& lost) {
  verdict_.policy = limit.count() == 0 ? "too few nodes are left"
                                       : "no other node came within " + format_duration(limit);
  if (lost) {
    verdict_.outcome = *lost;
    verdict_.exit_code = exit_code::kNodeLost;
    verdict_.hang.clear();
  } else if (!verdict_.earlier_rounds.empty()) {
    verdict_.earlier_rounds.pop_back();  // it is the last one
  }
}

void JobVerdict::note_failure(const std::string& text, int exit_code) {
  verdict_.outcome = LaunchFailed{exit_code, text};
  verdict_.exit_code = exit_code;
  verdict_.workers.clear();
}

JobEnd JobVerdict::describe(const JobSpec& spec,
                            const std::string& host,
                            std::size_t most_workers) const {
  return describe_end(verdict_, spec, host, most_workers);
}

}  // namespace ddp::launcher
