// What is known of a run from the files in its directory: values, for the page of one run and for
// the comparison of several. All of them may be missing.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

/// Numbers by name; NaN: not a finite number.
using Numbers = std::map<std::string, double>;

struct RecordedStep {
  std::int64_t step = 0;  // steps done
  double loss = std::numeric_limits<double>::quiet_NaN();
  double lr = std::numeric_limits<double>::quiet_NaN();
  double images_per_s = std::numeric_limits<double>::quiet_NaN();
};

struct RecordedEpoch {
  std::int64_t epoch = 1;  // from 1
  std::int64_t step = 0;
  bool is_whole = true;  // false: an evaluation in the middle of it
  Numbers numbers;       // as in metrics.jsonl: "train_loss", "test_accuracy", "images_per_s"

  [[nodiscard]] double number(const std::string& name) const;  // NaN: missing
};

/// What each rank measured in an epoch, by rank: "step_ms", "data_wait_ms", "forward_ms".
struct RecordedRanks {
  std::int64_t epoch = 1;
  std::int64_t step = 0;
  std::map<std::string, std::vector<double>> numbers;
};

/// A round of training by ddp-worker, which begins after `step` steps.
struct RecordedRound {
  int round = 0;
  std::int64_t step = 0;
  double time = 0;                 // since 1970, in seconds; 0: not reported
  std::vector<std::string> ranks;  // "host, device, threads, pid", by rank
  std::string versions;
  std::string directory;  // its working directory
  std::string commit;     // of that directory; empty: not under git
  std::string monitored;  // the metric that decides which evaluation is best
  bool is_higher_better = false;
};

struct ChangedKey {
  std::string path;
  std::string value;
  std::string default_value;
};

/// The results by class of the last evaluation.
struct RecordedClasses {
  static constexpr std::size_t kMost = 1000;  // classes whose pairs are counted

  std::int64_t step = 0;
  std::vector<std::string> names;      // of all rows; "background" last where there is one
  bool has_background = false;         // of a detector: objects not found, and false ones
  std::vector<std::int64_t> counts{};  // [names, names]: a row per true class, a column per answer
  std::map<std::string, std::vector<double>> numbers;  // "AP50": by class

  [[nodiscard]] std::int64_t count(std::size_t truth, std::size_t answer) const {
    return counts[truth * names.size() + answer];
  }
};

/// The worker that failed first, or the node that was lost.
struct RecordedCause {
  std::string what;
  std::string where;  // "rank 1 (host, pid 17)"
  std::string message;
  std::string hint;
  std::string stack_location;  // where its stack stood at a hang
  std::vector<std::string> last_lines;
};

struct RunRecord {
  std::string name;  // of its directory
  std::string path;
  std::string command;
  // result.json
  std::string state = "unknown";  // finished, stopped, failed, running, lost
  int exit_code = 0;
  std::string meaning;
  std::string decided_by;
  std::string policy;
  std::string failure;
  std::optional<double> seconds;  // of the last time that the run was started
  double earlier_seconds = 0;     // of earlier starts, as far as recorded
  int rounds = 0;
  int world_size = 0;
  std::int64_t batch = 0;
  std::optional<RecordedCause> cause;
  std::vector<std::string> earlier_rounds;

  bool has_job = true;              // false: its job.yaml is missing or cannot be read
  std::vector<ChangedKey> keys;     // that differ from their defaults
  std::vector<RecordedStep> steps;  // a part, if there are many
  std::int64_t steps_written = 0;   // number of all steps written
  std::vector<RecordedEpoch> epochs;
  std::vector<RecordedRanks> ranks;
  std::vector<RecordedRound> recorded_rounds;
  std::vector<std::int64_t> saves;       // steps after which a checkpoint was written
  std::vector<std::string> checkpoints;  // existing ones
  std::string best_checkpoint;
  std::optional<RecordedClasses> classes;
  std::vector<std::string> problems;  // files that cannot be read, for people
};

/// What "best" means in a run.
struct Monitored {
  std::string metric;  // "test_accuracy"; empty: nothing was evaluated
  bool is_higher_better = false;
};
Monitored monitored_of(const RunRecord& run);

/// The index in run.epochs of the best evaluation; nothing: none.
std::optional<std::size_t> best_of(const RunRecord& run, const Monitored& monitored);

/// Steps done, as far as recorded.
std::int64_t last_step(const RunRecord& run);

/// Seconds of all starts, as far as their ends are recorded; at least those of the epochs; nothing:
/// unknown.
std::optional<double> time_of(const RunRecord& run);

/// The median over the epochs; NaN: unknown.
double throughput_of(const RunRecord& run);

}  // namespace ddp
