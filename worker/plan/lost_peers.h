// Explains a failed collective: which ranks are missing, and whether a time-out was the cause.
// Pure: worker/dist/gloo_group exchanges the reports.
// A library reports that a wait timed out or a connection ended, but never which rank caused it. So
// each rank that fails leaves a report; a rank without a report is stopped, dead or busy.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::worker {

/// The report of a rank on which a collective failed.
struct FailureReport {
  int rank = 0;
  bool has_timed_out = false;  // it had waited for the whole time-out
  std::string during;          // "backward"
  bool operator==(const FailureReport&) const = default;
};

/// The report as a line, with its newline.
std::string to_line(const FailureReport& report);

/// The reports in `lines`. Skips lines that are not reports.
std::vector<FailureReport> read_reports(std::string_view lines);

/// How messages name the settings with which a user can extend the waits.
struct TimeoutNames {
  std::string join = "ddp.join_timeout";
  std::string collective = "ddp.timeout";
};

struct PeerLoss {
  FailureReport own;
  int world_size = 2;
  std::chrono::milliseconds timeout{0};  // of a collective
  std::string timeout_name = TimeoutNames().collective;
  /// The reports of all ranks that left one in time. No value: they were not read, or the store did
  /// not answer.
  std::optional<std::vector<FailureReport>> reports;
  bool rank_0_serves_store = false;  // then no answer means that rank 0 does not run
  std::string cause;                 // in the library's words
};

/// How this rank ends: its exit code, and the text of its error.
struct PeerFailure {
  int code = 0;
  std::string text;
  bool operator==(const PeerFailure&) const = default;
};

/// 124 if this rank, or another one with a report, has waited for the whole time-out; the text then
/// names the ranks that did not come. Else 97: a peer has ended.
PeerFailure explain(const PeerLoss& loss);

}  // namespace ddp::worker
