// The one report of a job, for people (torchrun's labels, which people grep for) and for programs
// (result.json).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/identity.h"
#include "common/owned_dir.h"
#include "launcher/plan/job_spec.h"
#include "launcher/plan/messages.h"
#include "launcher/run/console.h"
#include "launcher/run/verdict.h"

namespace ddp::launcher {

/// "round 0 failed after 2.1 s: rank 1 (pid 17), exit code 7". Precondition: its outcome is Failed
/// or NodeLost.
std::string summarize_round(const RoundResult& result, int round);

/// Root cause first, victims after in one line each. Empty for a job that ended well.
std::string format_report(const Verdict& verdict, const JobSpec& spec);

/// `text` as a terminal may be given it, whatever bytes it quotes.
std::string clean(const std::string& text);

/// The members of result.json, as common/run_dir's write_result wants them. Of more than
/// `most_workers` only the number is told.
std::string to_json_members(const Verdict& verdict,
                            const JobSpec& spec,
                            const std::string& host,
                            std::size_t most_workers);

/// The verdict as every node prints and writes it. `host` is node 0's.
JobEnd describe_end(const Verdict& verdict,
                    const JobSpec& spec,
                    const std::string& host,
                    std::size_t most_workers);

/// Prints the report, writes result.json into each of the directories that is not null, and hands
/// the root cause's error file to a launcher above us (TORCHELASTIC_ERROR_FILE). Returns the exit
/// code. Errors: none; what cannot be written is a warning.
int report(const JobEnd& end,
           const std::vector<const OwnedDir*>& directories,
           const Environment& environment,
           Console& console);

}  // namespace ddp::launcher
