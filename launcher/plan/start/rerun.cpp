#include "launcher/plan/start/rerun.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text/shell_quotes.h"
#include "launcher/plan/start/worker_environment.h"

namespace ddp::launcher {
namespace {

/// Whether the variable is about an agent, a round or a role, which a rank alone does not have.
bool is_about_the_job(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPrefixes{"TORCHELASTIC_", "DDP_", "ROLE_", "GROUP_"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [name](std::string_view prefix) {
    return name.starts_with(prefix);
  });
}

}  // namespace

std::string rerun_command(const JobSpec& spec,
                          const Placement& placement,
                          const RerunFacts& facts) {
  Placement alone = placement;  // the rank that it keeps
  if (!spec.takes_job_file) {
    alone = Placement();
    alone.local_rank = placement.local_rank;
  }
  RoundFacts round;
  round.master_addr = spec.facts.loopback;
  round.master_port = facts.port;
  const std::string rank = std::to_string(placement.rank);
  const std::string world_size = std::to_string(placement.world_size);
  std::string text = "cd " + quote_for_bash(facts.directory.string()) + " && env";
  for (const auto& [name, value] : added_environment(spec, alone, round, "", -1)) {
    if (!is_about_the_job(name))
      text += " " + quote_for_bash(name + "=" + shown_value(spec, name, value));
  }
  const std::vector<std::string> arguments = worker_arguments(spec, placement);
  text += " " + quote_for_bash(spec.executable);
  for (std::size_t i = 1; i < arguments.size(); ++i)
    text += " " + quote_for_bash(arguments[i]);
  if (placement.world_size == 1) return text;
  if (!spec.takes_job_file) {
    return text + "  # as rank 0 of 1: the data, seeds and rates of rank " + rank + " of " +
           world_size + " are not repeated";
  }
  if (!facts.checkpoint.empty()) {
    text += " " + quote_for_bash("checkpoint.resume=" + facts.checkpoint.string());
  }
  return text + " --as-rank " + rank + "/" + world_size;
}

}  // namespace ddp::launcher
