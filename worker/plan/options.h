// The worker's command line: a job file and overrides, or a verb and its arguments.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/shell_completion.h"
#include "common/job/job_values.h"
#include "common/job/resolve_job.h"
#include "worker/plan/init_method.h"

namespace ddp::worker {

/// --as-rank 3/8.
struct AsRank {
  int rank = 0;
  int world_size = 1;
  bool operator==(const AsRank&) const = default;
};

/// What the program does. Without a verb it trains.
enum class Verb { train, preview, export_weights, inspect, evaluate, predict };

struct Options {
  bool help = false;
  bool version = false;
  bool man = false;
  std::optional<std::string> completion{};  // --completion: for which shell
  bool check = false;
  Verb verb = Verb::train;
  std::vector<std::filesystem::path> files{};     // for verbs: the checkpoint, then others
  std::optional<std::filesystem::path> output{};  // for preview, export and predict
  bool exports_ema = false;  // for export: the moving averages instead of the weights
  std::optional<std::filesystem::path> script{};  // for export: where the weights are put
  bool is_json = false;
  std::optional<int> top{};            // for predict: classes or objects per image
  std::optional<double> confidence{};  // for predict, for objects: only scores above it
  std::optional<double> iou{};         // for predict: above it, two boxes count as one object
  bool trust = false;                  // checkpoints and weights of other users
  std::optional<std::filesystem::path> job_file{};
  std::vector<JobOverride> overrides{};
  InitMethod init_method{};
  std::optional<AsRank> as_rank{};  // one process alone does the work of that rank
  std::string command{};            // as typed, for the run directory
};

/// Reads `ddp-worker [JOB.yaml] [KEY=VALUE ...]`, or a verb and its arguments as in --help.
/// Errors: UsageError with all that is wrong: unknown flags, flags of another verb, arguments that
/// are not overrides, a second job file, too few or too many files.
Options parse_options(int argc, const char* const* argv);

/// Whether the command needs all ranks of the job: a training or an evaluation, without --check,
/// --as-rank, --completion, --man, --help or --version (or a prefix of one of these). The command
/// line may be wrong.
bool needs_all_ranks(int argc, const char* const* argv);

/// The text of --help; after a verb, the part about that verb.
std::string help_text(Verb verb);

/// The usage of each verb, and what it does, for --help; training comes first. ("eval CKPT
/// [JOB.yaml]", "evaluates it")
struct VerbHelp {
  std::string usage;
  std::string what;
};
std::vector<VerbHelp> describe_verbs();

/// The program's flags and verbs, for completions and the manual.
CompletionProgram completion_program();

/// The script that makes a shell complete the program's words: bash, zsh or fish. Errors:
/// UsageError for another shell.
std::string completion(const std::string& shell);

/// The job file with the overrides on top; for eval without a job file, the one in the checkpoint's
/// run.
/// Errors: UsageError.
JobValues load_job(const Options& options);

}  // namespace ddp::worker
