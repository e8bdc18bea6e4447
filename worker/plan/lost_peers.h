// What a collective that failed says about the other ranks: which of them are missing, and whether
// a time-out was the cause. Pure: worker/dist/lost_peers asks the ranks.
// A library says that it waited in vain or that a connection has ended, never for which rank. Each
// rank that fails therefore leaves a report; who left none is stopped, dead or busy elsewhere.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::worker {

/// What a rank leaves behind when a collective failed on it.
struct FailureReport {
  int rank = 0;
  bool has_timed_out = false;  // it had waited for as long as it may
  std::string during;          // "backward"
  bool operator==(const FailureReport&) const = default;
};

/// A line, with its newline.
std::string to_line(const FailureReport& report);

/// The reports in `lines`. What is not one is left out.
std::vector<FailureReport> read_reports(std::string_view lines);

/// What a user sets to wait longer, as messages name it.
struct TimeoutNames {
  std::string join = "ddp.join_timeout";
  std::string collective = "ddp.timeout";
};

struct PeerLoss {
  FailureReport own;
  int world_size = 2;
  std::chrono::milliseconds timeout{0};  // of a collective
  std::string timeout_name = TimeoutNames().collective;
  /// Those of all ranks that left one in time. Nothing: not asked for, or the store did not answer.
  std::optional<std::vector<FailureReport>> reports;
  bool is_on_rank_0 = false;  // the store: it stands still when rank 0 does
  std::string cause;          // in the library's words
};

/// How the rank ends.
struct PeerFailure {
  int code = 0;
  std::string text;
  bool operator==(const PeerFailure&) const = default;
};

/// 124 where this rank, or another that has left a report, waited for as long as it may: the text
/// names the ranks that did not come. Else 97: a peer has ended.
PeerFailure explain(const PeerLoss& loss);

}  // namespace ddp::worker
