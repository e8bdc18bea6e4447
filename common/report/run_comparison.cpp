#include "common/report/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/report/html.h"
#include "common/report/svg_chart.h"
#include "common/text/one_line.h"
#include "common/text/text_table.h"

namespace ddp {
namespace {

constexpr std::size_t kLongestCell = 60;  // of a terminal's table, in bytes
const std::string kUnknown = "?";

using Row = TextRow;

/// The cells of a run's row, for both tables.
Row cells_of(const RunRecord& run, bool is_best) {
  const Monitored monitored = monitored_of(run);
  const std::optional<std::size_t> best = best_of(run, monitored);
  std::string result = "-";
  std::string epoch = "-";
  if (best) {
    const RecordedEpoch& one = run.epochs[*best];
    const std::string half =
        monitored.metric.starts_with("test_") ? monitored.metric.substr(5) : monitored.metric;
    result = half + " " + metric_number(monitored.metric, one.number(monitored.metric)) +
             (is_best ? " (best)" : "");
    epoch = std::to_string(one.epoch);
  }
  const double rate = throughput_of(run);
  const std::optional<double> time = time_of(run);
  std::string ranks = run.world_size > 0 ? std::to_string(run.world_size) : "-";
  if (run.world_size == 0 && !run.recorded_rounds.empty())
    ranks = std::to_string(run.recorded_rounds.back().ranks.size());
  return {run.name,
          run.state,
          result,
          epoch,
          std::to_string(std::ranges::count(run.epochs, true, &RecordedEpoch::is_whole)),
          std::to_string(last_step(run)),
          time ? time_text(*time) : "-",
          std::isfinite(rate) && rate < 1e15 ? std::to_string(std::llround(rate)) : "-",
          ranks};
}

const Row& heads() {
  static const Row all{
      "run", "state", "best evaluation", "epoch", "epochs", "steps", "time", "images/s", "ranks"};
  return all;
}

std::vector<Row> rows_of(std::span<const RunRecord> runs) {
  const std::optional<std::size_t> best = best_run(runs);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < runs.size(); ++i)
    rows.push_back(cells_of(runs[i], i == best));
  return rows;
}

std::string shortened_table(std::vector<Row> rows) {
  for (Row& row : rows) {
    for (std::string& cell : row)
      cell = one_line(cell, kLongestCell);
  }
  return text_table(rows);
}

Row names_of(std::span<const RunRecord> runs) {
  Row names;
  for (const RunRecord& run : runs)
    names.push_back(run.name);
  return names;
}

Row escaped(Row row) {
  for (std::string& cell : row)
    cell = escape(cell);
  return row;
}

std::string chart_of(std::span<const RunRecord> runs, const std::string& name) {
  ChartRequest chart{.title = name, .curves = {}};
  std::ranges::replace(chart.title, '_', ' ');
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ChartCurve curve{runs[i].name, {}, static_cast<int>(i), false};
    for (const RecordedEpoch& one : runs[i].epochs)
      if (std::isfinite(one.number(name)))
        curve.points.push_back({static_cast<double>(one.step), one.number(name)});
    chart.curves.push_back(std::move(curve));
  }
  return svg_chart(chart);
}

/// One line for each run whose job is not known.
Row unknown_jobs(std::span<const RunRecord> runs) {
  Row lines;
  for (const RunRecord& run : runs)
    if (!run.has_job) lines.push_back(run.name + ": its job.yaml is missing or cannot be read");
  return lines;
}

/// Whether the key changes the data; results on different data cannot be compared.
bool has_other_data(const DifferingKey& key) {
  return key.path == "data.name" || key.path == "data.root" || key.path == "data.test_size";
}

}  // namespace

std::vector<DifferingKey> differing_keys(std::span<const RunRecord> runs) {
  std::map<std::string, std::string> defaults;
  for (const RunRecord& run : runs)
    for (const ChangedKey& key : run.keys)
      defaults.emplace(key.path, key.default_value);
  std::vector<DifferingKey> keys;
  for (const auto& [path, usual] : defaults) {
    DifferingKey key{path, {}};
    for (const RunRecord& run : runs) {
      const auto own = std::ranges::find(run.keys, path, &ChangedKey::path);
      const std::string& other = run.has_job ? usual : kUnknown;
      key.values.push_back(own == run.keys.end() ? other : own->value);
    }
    const bool is_same = std::ranges::all_of(
        key.values, [&](const std::string& value) { return value == key.values[0]; });
    if (!is_same) keys.push_back(std::move(key));
  }
  return keys;
}

std::optional<std::size_t> best_run(std::span<const RunRecord> runs) {
  if (std::ranges::any_of(runs, std::logical_not(), &RunRecord::has_job) ||
      std::ranges::any_of(differing_keys(runs), has_other_data))
    return {};
  std::optional<std::size_t> best;
  std::optional<Monitored> common;
  double value = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Monitored monitored = monitored_of(runs[i]);
    const std::optional<std::size_t> place = best_of(runs[i], monitored);
    if (!place) continue;
    if (common && (common->metric != monitored.metric ||
                   common->is_higher_better != monitored.is_higher_better))
      return {};
    common = monitored;
    const double result = runs[i].epochs[*place].number(monitored.metric);
    if (!best || (monitored.is_higher_better ? result > value : result < value)) {
      best = i;
      value = result;
    }
  }
  return best;
}

std::string comparison_text(std::span<const RunRecord> runs) {
  std::vector<Row> rows = rows_of(runs);
  rows.insert(rows.begin(), heads());
  std::string text = shortened_table(std::move(rows));
  const std::vector<DifferingKey> keys = differing_keys(runs);
  const Row unknown = unknown_jobs(runs);
  for (const std::string& line : unknown)
    text += "\n" + one_line(line) + "\n";
  if (keys.empty()) return text + (unknown.empty() ? "\nno key of their jobs differs\n" : "");
  Row names = names_of(runs);
  names.insert(names.begin(), "key");
  std::vector<Row> table{std::move(names)};
  for (const DifferingKey& key : keys) {
    Row row{key.path};
    row.insert(row.end(), key.values.begin(), key.values.end());
    table.push_back(std::move(row));
  }
  return text + "\n" + shortened_table(std::move(table));
}

std::string comparison_page(std::span<const RunRecord> runs) {
  std::vector<Row> rows;
  for (Row& row : rows_of(runs))
    rows.push_back(escaped(std::move(row)));
  const std::optional<std::size_t> best = best_run(runs);
  std::vector<std::string> classes(rows.size());
  if (best) classes[*best] = "best";
  std::string html = "<h1>" + std::to_string(runs.size()) + " runs</h1>\n<div class=\"card\">" +
                     html_table(heads(), rows, classes) + "</div>\n";
  std::set<std::string> metrics{"train_loss", "test_loss", "images_per_s"};
  for (const RunRecord& run : runs)
    if (const Monitored monitored = monitored_of(run); !monitored.metric.empty())
      metrics.insert(monitored.metric);
  std::string charts;
  for (const std::string& name : metrics)
    charts += chart_of(runs, name);
  if (!charts.empty()) html += "<h2>Curves</h2>\n<div class=\"grid\">\n" + charts + "</div>\n";
  Row heads = escaped(names_of(runs));
  heads.insert(heads.begin(), "key");
  std::vector<Row> keys;
  for (const DifferingKey& key : differing_keys(runs)) {
    Row row{element("code", key.path)};
    for (const std::string& value : key.values)
      row.push_back(element("code", value));
    keys.push_back(std::move(row));
  }
  const Row unknown = unknown_jobs(runs);
  for (const std::string& line : unknown)
    html += element("p", line);
  if (keys.empty() && unknown.empty()) html += "<p>No key of their jobs differs.</p>\n";
  html += keys.empty() ? ""
                       : "<h2>Keys that differ</h2>\n<div class=\"card\">" +
                             html_table(heads, keys) + "</div>\n";
  return html_page(std::to_string(runs.size()) + " runs", html);
}

}  // namespace ddp
