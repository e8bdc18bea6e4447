#include "launcher/plan/start/log_layout.h"

#include <algorithm>

namespace ddp::launcher {

namespace fs = std::filesystem;

std::optional<int> round_to_forget(int round) {
  const int last = round - kRoundsWithLogs;  // the last round that is too old to keep
  return last >= kRoundsWithLogs ? std::optional(last) : std::nullopt;
}

std::string round_name(const RoundFacts& facts, int round) {
  return (facts.log_dir.empty() ? "round-" : "attempt_") + std::to_string(round);
}

fs::path round_dir(const RoundFacts& facts) {
  const std::string name = round_name(facts, facts.round);
  if (!facts.log_dir.empty()) return facts.log_dir / name;
  if (!facts.run_dir.empty()) return facts.run_dir / "logs" / name;
  return {};
}

WorkerFiles place_files(const JobSpec& spec,
                        const RoundFacts& facts,
                        const Placement& placement,
                        const fs::path& scratch) {
  const bool is_torchs = !facts.log_dir.empty();
  const fs::path round = round_dir(facts);
  const std::string rank = std::to_string(placement.rank);
  const fs::path own = round / std::to_string(placement.local_rank);
  const auto file_of = [&](WorkerStream stream) -> fs::path {
    if (!plan_stream(spec.logs, spec.has_run_dir, placement.local_rank, stream).is_logged)
      return {};
    if (is_torchs) return own / (std::string(to_text(stream)) + ".log");
    return round / ("rank-" + rank + (stream == WorkerStream::output ? ".out" : ".err"));
  };
  const auto filtered = [&](WorkerStream stream) -> fs::path {
    if (!plan_stream(spec.logs, spec.has_run_dir, placement.local_rank, stream).has_filtered_file)
      return {};
    // Nodes share a run directory, but never a directory in torchrun's layout.
    const bool is_shared = !is_torchs && placement.nodes > 1;
    const std::string node = is_shared ? "-node-" + std::to_string(placement.node_rank) : "";
    return round / ("filtered_" + std::string(to_text(stream)) + node + ".log");
  };
  WorkerFiles files;
  files.output = file_of(WorkerStream::output);
  files.errors = file_of(WorkerStream::errors);
  files.filtered_output = filtered(WorkerStream::output);
  files.filtered_errors = filtered(WorkerStream::errors);
  if (is_torchs) {
    files.error_file = own / "error.json";
  } else if (!refuses_files(spec.logs)) {
    files.error_file =
        scratch / ("round-" + std::to_string(facts.round) + "-rank-" + rank + ".json");
  }
  return files;
}

std::string log_dir_name(const std::string& user_run_id, const std::string& random) {
  std::string name = user_run_id + "_" + random;
  std::ranges::replace(name, '/', '_');
  return name;
}

}  // namespace ddp::launcher
