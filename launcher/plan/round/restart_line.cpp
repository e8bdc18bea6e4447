#include "launcher/plan/round/restart_line.h"

#include "common/text/units.h"

namespace ddp::launcher {
namespace {

std::string when(const RestartDecision& decision, const RestartFacts& facts) {
  const std::string limit = format_duration(facts.replace_timeout);
  if (!facts.nodes.is_enough) return "when another node has come, within " + limit;
  if (facts.nodes.awaits_another()) return "when another node has come, or in " + limit;
  if (facts.until_replaceable > decision.pause) {
    return "in " + format_seconds(facts.until_replaceable) +
           ", when the lost node's workers are surely dead";
  }
  return decision.pause.count() == 0 ? "now" : "in " + format_duration(decision.pause);
}

/// ", 2 of 3 ranks go on from step 7"; empty: no worker has survived.
std::string describe_survivors(const RoundResult& result, int world_size) {
  if (result.survivors == 0) return "";
  const std::string who =
      ", " + std::to_string(result.survivors) + " of " + std::to_string(world_size) + " ranks ";
  return who + (result.survivor_step < 0
                    ? "wait for it"
                    : "go on from step " + std::to_string(result.survivor_step));
}

}  // namespace

std::string describe_restart(const RoundResult& result,
                             const RestartDecision& decision,
                             const RestartFacts& facts) {
  std::string text = "round " + std::to_string(facts.next_round) + " starts " +
                     when(decision, facts) + describe_survivors(result, facts.world_size);
  if (facts.restarts_left) {
    text += ", " + std::to_string(*facts.restarts_left) +
            (*facts.restarts_left == 1 ? " restart is left" : " restarts are left");
  }
  return text + ".";
}

}  // namespace ddp::launcher
