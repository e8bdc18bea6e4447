#include "worker/plan/lost_peers.h"

#include <algorithm>
#include <set>

#include "common/exit_code.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "common/text/units.h"
#include "worker/plan/text_differences.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kMaxNamed = 8;

/// No value for a line that is not a report such as "3 timed-out backward".
std::optional<FailureReport> read_report(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = line.find(' ', std::min(first, line.size() - 1) + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return {};
  const std::optional<int> rank = parse_whole<int>(line.substr(0, first));
  const std::string_view how = line.substr(first + 1, second - first - 1);
  if (!rank || (how != "timed-out" && how != "lost")) return {};
  return FailureReport{*rank, how == "timed-out", std::string(line.substr(second + 1))};
}

std::vector<int> missing_ranks(const PeerLoss& loss) {
  std::set<int> here{loss.own.rank};
  for (const FailureReport& report : *loss.reports)
    here.insert(report.rank);
  std::vector<int> missing;
  for (int rank = 0; rank < loss.world_size; ++rank) {
    if (!here.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

/// "rank 0 is in backward, rank 1 in a sum over ranks", by rank. Empty when all are in the same
/// call.
std::string places_of(const PeerLoss& loss) {
  std::vector<FailureReport> all = *loss.reports;
  std::erase_if(all, [&](const FailureReport& one) { return one.rank == loss.own.rank; });
  all.push_back(loss.own);
  const auto is_elsewhere = [&](const FailureReport& one) { return one.during != all[0].during; };
  if (std::none_of(all.begin(), all.end(), is_elsewhere)) return "";
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "" : ", ") + name_ranks({all[i].rank}) + (i == 0 ? " is in " : " in ") +
            all[i].during;
  }
  return text + (all.size() > kMaxNamed ? " and so on" : "");
}

/// Describes a time-out: who is to blame, and what to do.
std::string describe(const PeerLoss& loss) {
  if (!loss.reports && !(loss.rank_0_serves_store && loss.own.rank != 0))
    return "the store does not answer either, so nobody can say which rank is missing.";
  const std::vector<int> missing = loss.reports ? missing_ranks(loss) : std::vector{0};
  if (missing.size() == 1) {
    return name_ranks(missing) + " of " + std::to_string(loss.world_size) +
           " did not come. It is stopped, hangs or is late: see what it does, or raise " +
           loss.timeout_name + ".";
  }
  if (!missing.empty()) {
    return name_ranks(missing) + " of " + std::to_string(loss.world_size) +
           " did not come. They are stopped, hang or are late: see what they do, or raise " +
           loss.timeout_name + ".";
  }
  const std::string places = places_of(loss);
  return (places.empty() ? "every rank has come by now" : places) +
         ". One was late, or the network between them is stuck" +
         (places.empty() ? "" : ", or they do not call the same collectives in the same order") +
         ": raise " + loss.timeout_name + ", or check that.";
}

}  // namespace

std::string to_line(const FailureReport& report) {
  return std::to_string(report.rank) + (report.has_timed_out ? " timed-out " : " lost ") +
         report.during + "\n";
}

std::vector<FailureReport> read_reports(std::string_view lines) {
  std::vector<FailureReport> reports;
  for (const std::string_view line : split_lines(lines))
    if (std::optional<FailureReport> report = read_report(line))
      reports.push_back(std::move(*report));
  return reports;
}

PeerFailure explain(const PeerLoss& loss) {
  bool has_timed_out = loss.own.has_timed_out;
  if (loss.reports) {
    for (const FailureReport& report : *loss.reports)
      has_timed_out = has_timed_out || report.has_timed_out;
  }
  if (!has_timed_out) {
    return {exit_code::kLostPeer, "lost a peer during " + loss.own.during + ": " + loss.cause};
  }
  return {exit_code::kTimeout,
          "time-out in " + loss.own.during + " after " + format_duration(loss.timeout) + " (" +
              loss.timeout_name + "): " + describe(loss) + " (" + loss.cause + ")"};
}

}  // namespace ddp::worker
