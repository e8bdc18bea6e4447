// How the job ends, as it becomes known: round after round, until there is no further one.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/plan/job_spec.h"
#include "launcher/plan/messages.h"
#include "launcher/plan/restart_policy.h"
#include "launcher/run/verdict.h"

namespace ddp::launcher {

class JobVerdict {
 public:
  void begin_round(int number, int world_size);
  /// What it has come to. What could not be killed spoils a good end.
  void note_round(const RoundResult& round);
  /// Another one follows. Returns the line that is kept of this one.
  const std::string& note_restart();
  /// No other one follows, by the policy.
  void note_last_round(const RestartDecision& decision);

  /// The user stopped the job when there was no worker that could be told.
  void note_stopped(int signal);
  /// Another one was to follow, and its nodes did not come within `limit`. `lost`: a node was, when
  /// its part in the newest round was over already.
  void note_no_nodes(std::chrono::milliseconds limit, const std::optional<NodeLost>& lost);
  /// The launcher's own failure; that of an earlier round is a line of its own.
  void note_failure(const std::string& text, int exit_code);

  /// No process of the job is left; to be called once, before it is described.
  void note_end() { verdict_.duration = std::chrono::steady_clock::now() - begin_; }

  /// For every node. `host` is node 0's; of more than `most_workers` only the number is told.
  [[nodiscard]] JobEnd describe(const JobSpec& spec,
                                const std::string& host,
                                std::size_t most_workers) const;

  [[nodiscard]] const Verdict& value() const { return verdict_; }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Verdict verdict_;
};

}  // namespace ddp::launcher
