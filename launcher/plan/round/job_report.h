// The one report of a job, for people (torchrun's labels, which people grep for) and for programs
// (result.json). Pure but for the time zone by which it shows times of day (localtime(3));
// run/final_report prints and writes it.
#pragma once

#include <optional>
#include <string>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/node_zero_lost.h"
#include "launcher/plan/round/verdict.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// "round 0 failed after 2.1 s: rank 1 (pid 17), exit code 7". Precondition: its outcome is Failed
/// or NodeLost.
std::string summarize_round(const RoundResult& result, int round);

/// Root cause first, victims after in one line each. Empty for a job that ended well.
std::string format_report(const Verdict& verdict, const JobSpec& spec);

/// `text` as a terminal may be given it, whatever bytes it quotes.
std::string clean_report(const std::string& text);

/// The members of result.json, as common/run_dir/run_dir's write_result wants them. More than
/// `most_workers` workers are only counted.
std::string to_json_members(const Verdict& verdict,
                            const JobSpec& spec,
                            const std::string& host,
                            std::size_t most_workers);

/// The verdict as every node prints and writes it. `host` is node 0's.
EndJob describe_end(const Verdict& verdict,
                    const JobSpec& spec,
                    const std::string& host,
                    std::size_t most_workers);

/// `end` as the node that ends alone prints and writes it. `before`: the command that was already
/// ending the round, if any. If node 0 was lost, the cause in `before` is kept as a line of the
/// report.
EndJob describe_end_without_node_zero(const EndWithoutNodeZero& end,
                                      const std::optional<EndRound>& before,
                                      int world_size,
                                      const JobSpec& spec,
                                      const std::string& host);

/// How a job ends for this node alone, in one sentence.
EndJob describe_own_end(int exit_code, const std::string& text);

}  // namespace ddp::launcher
