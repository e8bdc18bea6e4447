#include "common/report/rank_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/progress/above_median_of_others.h"
#include "common/report/html.h"
#include "common/report/svg_chart.h"

namespace ddp {
namespace {

constexpr std::size_t kMaxCurves = 6;  // more ranks are shown as lowest, median and highest
constexpr std::size_t kMaxRows = 256;

struct Figure {
  const char* name;
  const char* title;
  bool is_own_work = false;  // of a rank, without waits for others
};
constexpr std::array<Figure, 5> kFigures{{{"step_ms", "step"},
                                          {"data_wait_ms", "data wait", true},
                                          {"forward_ms", "forward", true},
                                          {"backward_ms", "backward", true},
                                          {"communication_ms", "communication"}}};
constexpr std::size_t kOwnParts = 3;

const std::vector<double>* find(const RecordedRanks& ranks, const std::string& name) {
  const auto found = ranks.numbers.find(name);
  return found == ranks.numbers.end() ? nullptr : &found->second;
}

std::size_t most_ranks(const RunRecord& run, const std::string& name) {
  std::size_t most = 0;
  for (const RecordedRanks& one : run.ranks)
    if (const std::vector<double>* const values = find(one, name))
      most = std::max(most, values->size());
  return most;
}

std::vector<ChartCurve> curve_per_rank(const RunRecord& run, const std::string& name) {
  std::vector<ChartCurve> curves(most_ranks(run, name));
  for (std::size_t rank = 0; rank < curves.size(); ++rank) {
    curves[rank].name = "rank " + std::to_string(rank);
    curves[rank].color = static_cast<int>(rank);
    for (const RecordedRanks& one : run.ranks) {
      const std::vector<double>* const values = find(one, name);
      if (values != nullptr && rank < values->size())
        curves[rank].points.push_back({static_cast<double>(one.step), (*values)[rank]});
    }
  }
  return curves;
}

std::vector<ChartCurve> spread_of_ranks(const RunRecord& run, const std::string& name) {
  std::vector<ChartCurve> curves{{"slowest rank", {}, 1}, {"median", {}, 0}, {"fastest", {}, 2}};
  for (const RecordedRanks& one : run.ranks) {
    const std::vector<double>* const values = find(one, name);
    if (values == nullptr) continue;
    std::vector<double> sorted;
    std::ranges::copy_if(
        *values, std::back_inserter(sorted), [](double value) { return std::isfinite(value); });
    if (sorted.empty()) continue;
    std::ranges::sort(sorted);
    const auto step = static_cast<double>(one.step);
    curves[0].points.push_back({step, sorted.back()});
    curves[1].points.push_back({step, sorted[sorted.size() / 2]});
    curves[2].points.push_back({step, sorted.front()});
  }
  return curves;
}

std::string chart_of(const RunRecord& run, const Figure& figure) {
  const bool is_few = most_ranks(run, figure.name) <= kMaxCurves;
  return svg_chart(
      {.title = "Milliseconds per step: " + std::string(figure.title),
       .curves = is_few ? curve_per_rank(run, figure.name) : spread_of_ranks(run, figure.name),
       .starts_at_zero = true});
}

struct Slowest {
  std::size_t rank = 0;
  double share = 0;       // of its step: its own work beyond the median of the others
  std::string_view part;  // in which it lost most
  double own_ms = 0;
  double others_ms = 0;  // median
};

/// The rank that did most of its own in a step of that epoch; nothing: none stands out, or not all
/// parts of a step are known.
std::optional<Slowest> find_slowest(const RecordedRanks& epoch) {
  const std::vector<double>* const steps = find(epoch, "step_ms");
  if (steps == nullptr || steps->size() < 2) return std::nullopt;
  std::vector<double> work(steps->size());
  std::vector<const Figure*> parts;
  for (const Figure& figure : kFigures) {
    const std::vector<double>* const values = find(epoch, figure.name);
    if (!figure.is_own_work || values == nullptr || values->size() != work.size()) continue;
    parts.push_back(&figure);
    for (std::size_t rank = 0; rank < work.size(); ++rank)
      work[rank] += (*values)[rank];
  }
  const auto is_finite = [](double number) { return std::isfinite(number); };
  if (parts.size() < kOwnParts || !std::ranges::all_of(work, is_finite)) return std::nullopt;
  Slowest found;
  found.rank = static_cast<std::size_t>(std::ranges::max_element(work) - work.begin());
  found.share = above_median_of_others(work, found.rank) / (*steps)[found.rank];
  if (!std::isfinite(found.share) || found.share < kSlowShare) return std::nullopt;
  const auto excess = [&](const Figure* part) {
    return above_median_of_others(*find(epoch, part->name), found.rank);
  };
  const Figure& worst = **std::ranges::max_element(parts, {}, excess);
  found.part = worst.title;
  found.own_ms = (*find(epoch, worst.name))[found.rank];
  found.others_ms = found.own_ms - excess(&worst);
  return found;
}

/// A sentence about the rank that was the slowest in both of the last two epochs, as a few samples
/// of one say little; empty: there is none.
std::string slowest_of(const RunRecord& run) {
  if (run.ranks.size() < 2) return "";
  const std::optional<Slowest> before = find_slowest(run.ranks[run.ranks.size() - 2]);
  const std::optional<Slowest> slowest = find_slowest(run.ranks.back());
  if (!before || !slowest || before->rank != slowest->rank) return "";
  return element(
      "p",
      fmt::format(
          "Rank {} was the slowest: others waited for it {:.0f} % of a step, most for its {} "
          "({} ms, of other ranks {} ms).",
          slowest->rank,
          100 * std::min(slowest->share, 1.0),
          slowest->part,
          short_number(slowest->own_ms),
          short_number(slowest->others_ms)));
}

std::string table_of(const RunRecord& run) {
  const std::vector<std::string> devices =
      run.recorded_rounds.empty() ? std::vector<std::string>() : run.recorded_rounds.back().ranks;
  const RecordedRanks newest = run.ranks.empty() ? RecordedRanks() : run.ranks.back();
  std::size_t ranks = devices.size();
  for (const auto& [name, values] : newest.numbers)
    ranks = std::max(ranks, values.size());
  std::vector<std::string> heads{"rank", "host, device"};
  for (const Figure& figure : kFigures)
    if (find(newest, figure.name) != nullptr) heads.push_back(std::string(figure.title) + ", ms");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t rank = 0; rank < std::min(ranks, kMaxRows); ++rank) {
    std::vector<std::string> row{std::to_string(rank),
                                 rank < devices.size() ? escape(devices[rank]) : "-"};
    for (const Figure& figure : kFigures) {
      const std::vector<double>* const values = find(newest, figure.name);
      if (values != nullptr)
        row.push_back(rank < values->size() ? short_number((*values)[rank]) : "-");
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  const std::string when =
      newest.numbers.empty()
          ? ""
          : element("p", "Means over epoch " + std::to_string(newest.epoch) + ".", "soft");
  const std::string rest =
      ranks > kMaxRows
          ? element("p", "and " + std::to_string(ranks - kMaxRows) + " more ranks", "soft")
          : "";
  return when + slowest_of(run) + "<div class=\"card\">" + html_table(heads, rows) + rest +
         "</div>\n";
}

}  // namespace

std::string rank_part(const RunRecord& run) {
  const std::string table = table_of(run);
  if (table.empty()) return "";
  const std::string charts = chart_of(run, kFigures[0]) + chart_of(run, kFigures[1]);
  return "<h2>Ranks</h2>\n" +
         (charts.empty() ? "" : "<div class=\"grid\">\n" + charts + "</div>\n") + table;
}

}  // namespace ddp
