#include "launcher/plan/round/verdict_builder.h"

#include "common/exit_code.h"
#include "common/text/units.h"
#include "launcher/plan/round/job_report.h"

namespace ddp::launcher {

void VerdictBuilder::note_begun(int number, int world_size) {
  verdict_.rounds = number + 1;
  verdict_.world_size = world_size;
}

void VerdictBuilder::note_result(const RoundResult& result) {
  static_cast<RoundResult&>(verdict_) = result;
  if (!result.unkilled.empty() && result.exit_code == exit_code::kOk)
    verdict_.exit_code = exit_code::kInternal;
}

const std::string& VerdictBuilder::note_restart() {
  auto& earlier = verdict_.earlier_rounds;
  if (earlier.size() == Verdict::kRoundLines) earlier.erase(earlier.begin());
  return earlier.emplace_back(summarize_round(verdict_, verdict_.rounds - 1));
}

void VerdictBuilder::note_last_round(const RestartDecision& decision) {
  const bool is_bad = std::holds_alternative<Failed>(verdict_.outcome) ||
                      std::holds_alternative<NodeLost>(verdict_.outcome);
  if (!is_bad) return;
  if (decision.exit_code != verdict_.exit_code) verdict_.why_last_round = decision.reason;
  verdict_.exit_code = decision.exit_code;
}

void VerdictBuilder::note_not_begun(const NotBegun& why) {
  if (why.requested_signal) {
    verdict_.outcome = Stopped{*why.requested_signal};
    verdict_.hang.clear();
    verdict_.exit_code = exit_code::of_signal(*why.requested_signal);
  } else if (verdict_.world_size > 0) {
    note_no_nodes(why);
  } else if (why.refusal) {
    note_launcher_failed(why.refusal->text, why.refusal->code);
  } else {
    note_launcher_failed(
        "the job has not begun: " + why.missing + "; waited " + format_duration(why.waited) +
            ". Start them with the same --nnodes, --master-addr and --master-port.",
        exit_code::kRendezvous);
  }
}

void VerdictBuilder::note_no_nodes(const NotBegun& why) {
  verdict_.why_last_round = why.waited.count() == 0
                                ? "too few nodes are left"
                                : "no other node came within " + format_duration(why.waited);
  if (why.later_lost_node) {
    verdict_.outcome = *why.later_lost_node;
    verdict_.exit_code = exit_code::kNodeLost;
    verdict_.hang.clear();
  } else if (!verdict_.earlier_rounds.empty()) {
    verdict_.earlier_rounds.pop_back();  // it is now the last round
  }
}

void VerdictBuilder::note_launcher_failed(const std::string& text, int exit_code) {
  verdict_.outcome = LauncherFailed{exit_code, text};
  verdict_.exit_code = exit_code;
  verdict_.workers.clear();  // the outcome refers to none of them
}

}  // namespace ddp::launcher
