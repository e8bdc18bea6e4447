#include "launcher/plan/web/page_parts.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "common/progress/progress_page.h"
#include "common/report/html.h"
#include "common/text/one_line.h"
#include "common/text/split.h"
#include "common/text/units.h"

namespace ddp::launcher {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr std::size_t kLongestCell = 160;  // of a worker's line, as shown
constexpr std::size_t kFewRanks = 32;      // up to so many ranks have several lines each

std::string step_time(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds / kMillisecond)
                     : fmt::format("{:.3g} s", seconds);
}

/// "0.25", "318.5", "12 345".
std::string rate_text(double rate) {
  return rate < 1000 ? fmt::format("{:.4g}", rate) : grouped(std::llround(std::min(rate, 1e15)));
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string tile(std::string_view name, const std::string& value) {
  return "<div class=\"tile\"><b>" + escape(value) + "</b>" + element("span", name) + "</div>\n";
}

/// The state as a badge, with a class of the report's.
std::string badge(const JobView& job) {
  if (job.state != JobView::Shown::over)
    return element("span", to_text(job.state), "badge running");
  if (job.exit_code == 0) return element("span", "finished", "badge finished");
  const std::string code = "exit code " + std::to_string(job.exit_code.value_or(0));
  if (job.was_stopped) return element("span", "stopped, " + code, "badge stopped");
  return element("span", code, "badge failed");
}

std::string phase_text(const JobView::Rank& rank) {
  if (rank.ended) return "ended";
  if (rank.sample.has_page) return std::string(ddp::to_text(rank.sample.phase));
  const char state = rank.sample.activity.state;
  return state == 'T' ? "stopped" : "runs";
}

std::string step_tiles(const JobView::Rank& rank) {
  const WorkerSample& sample = rank.sample;
  std::string html = tile("phase of rank " + std::to_string(sample.rank), phase_text(rank));
  if (sample.steps_total > 0) {
    if (sample.epoch > 0) html += tile("epoch", std::to_string(sample.epoch));
    const double done = static_cast<double>(sample.step) / static_cast<double>(sample.steps_total);
    html += tile("step of " + grouped(sample.steps_total) + ", " + percent(std::min(done, 1.0)),
                 grouped(sample.step));
  } else {
    html += tile("step", grouped(sample.step));
  }
  if (sample.step > 0 && sample.loss) html += tile("loss", loss_html(*sample.loss));
  if (sample.step > 0 && sample.lr) html += tile("learning rate", short_number(*sample.lr));
  if (std::isfinite(sample.accuracy))
    html += tile("accuracy of the newest evaluation", metric_number("accuracy", sample.accuracy));
  if (rank.step_seconds) html += tile("time of a step", step_time(*rank.step_seconds));
  return html;
}

std::string head_part(const JobView& job) {
  const std::size_t name = job.run_dir.find_last_of('/') + 1;  // as in the report
  const std::string title = job.run_dir.empty() ? job.program : job.run_dir.substr(name);
  std::string html = "<div class=\"head\">" + element("h1", title) + badge(job) + "</div>\n";
  std::string where = job.run_dir.empty() ? "" : job.program + ", ";
  const std::string run = job.run_id.substr(0, 8);
  where += "run " + run;
  // A random id is the run's own.
  if (job.user_run_id != "none" && !job.user_run_id.starts_with(run))
    where += ", id " + job.user_run_id;
  where += ", node 0 is " + job.host + ", agent " + std::to_string(job.pid);
  if (!job.run_dir.empty()) where += ", " + job.run_dir;
  html += element("p", where, "soft");
  html += "<div class=\"tiles\">\n";
  const JobView::Rank* const first = first_with_page(job);
  if (first != nullptr) html += step_tiles(*first);
  if (job.samples_per_second)
    html += tile("samples per second", rate_text(*job.samples_per_second));
  const auto alive =
      std::ranges::count_if(job.ranks, [](const JobView::Rank& rank) { return !rank.ended; });
  html += tile("ranks of " + std::to_string(job.ranks.size()) + " that run", std::to_string(alive));
  const std::string most =
      job.lost_nodes_are_free ? "" : ", of at most " + std::to_string(job.max_restarts + 1);
  html += tile("round" + most, std::to_string(job.round + 1));
  html += tile("since the start", time_text(job.uptime));
  const bool is_training =
      first != nullptr && first->step_seconds && first->sample.steps_total > first->sample.step;
  if (is_training && job.state == JobView::Shown::running) {
    const std::int64_t left = first->sample.steps_total - first->sample.step;
    html += tile("to go", time_text(static_cast<double>(left) * *first->step_seconds));
  }
  if (first != nullptr && first->sample.checkpoint_step >= 0)
    html += tile("newest checkpoint, step", grouped(first->sample.checkpoint_step));
  html += "</div>\n";
  if (!job.report.empty())
    html +=
        "<h2>How it ended</h2><div class=\"card cause\">" + element("pre", job.report) + "</div>\n";
  return html;
}

ChartCurve curve(std::string name, const Series& series, int color, double times = 1) {
  ChartCurve curve{std::move(name), series.points(), color};
  for (ChartPoint& point : curve.points)
    point.y *= times;
  return curve;
}

/// Whether any rank has waited; external programs rarely report it.
bool has_waited(const Series& series) {
  return std::ranges::any_of(series.points(), [](const ChartPoint& point) { return point.y > 0; });
}

std::string charts_part(const JobHistory& history) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  const JobHistory::Curves& curves = history.curves();
  const auto chart = [&](std::string title, std::vector<ChartCurve> drawn, bool from_zero = true) {
    return svg_chart({.title = std::move(title),
                      .curves = std::move(drawn),
                      .marks = history.marks(),
                      .starts_at_zero = from_zero});
  };
  const std::string html =
      chart("Loss", {curve("training", curves.loss, 0)}, false) +
      chart(
          "Accuracy of the newest evaluation, %", {curve("test", curves.accuracy, 3, 100)}, false) +
      chart("Samples per second", {curve("all ranks", curves.throughput, 2)}) +
      chart("Time of a step, ms",
            {curve("slowest rank", curves.slowest_step, 1, 1 / kMillisecond),
             curve("fastest rank", curves.fastest_step, 0, 1 / kMillisecond)}) +
      (has_waited(curves.most_waiting)
           ? chart("Waiting for other ranks, % of the time",
                   {curve("rank that waits most", curves.most_waiting, 1, 100),
                    curve("rank that waits least", curves.least_waiting, 0, 100)})
           : "") +
      chart("Waiting for data, % of the time",
            {curve("rank that waits most", curves.most_data_wait, 1, 100),
             curve("rank that waits least", curves.least_data_wait, 0, 100)}) +
      chart("Learning rate", {curve("learning rate", curves.lr, 4)}) +
      chart("Device memory, MiB",
            {curve("rank that holds most", curves.most_device, 1, 1 / kMebibyte),
             curve("rank that holds least", curves.least_device, 0, 1 / kMebibyte)}) +
      chart("Resident memory, MiB",
            {curve("largest rank", curves.largest_resident, 1, 1 / kMebibyte),
             curve("smallest rank", curves.smallest_resident, 0, 1 / kMebibyte)});
  if (html.empty()) return "";
  return "<h2>Curves</h2>\n<div class=\"grid\">" + html + "</div>\n";
}

/// The newest `most` lines, one below the other.
std::string lines_cell(const std::vector<std::string>& lines, std::size_t most) {
  std::string html;
  for (std::size_t i = lines.size() - std::min(most, lines.size()); i < lines.size(); ++i)
    html += (html.empty() ? "" : "<br>") + element("code", one_line(lines[i], kLongestCell));
  return html;
}

std::vector<std::string> rank_row(const JobView::Rank& rank,
                                  std::int64_t first_step,
                                  std::size_t lines) {
  const WorkerSample& sample = rank.sample;
  std::string step;
  if (sample.has_page) {
    step = grouped(sample.step);
    if (sample.step < first_step) step += " (" + grouped(sample.step - first_step) + ")";
  }
  const bool has_memory = !rank.ended && sample.activity.resident_bytes > 0;
  return {std::to_string(sample.rank),
          std::to_string(rank.node_rank),
          rank.pid == 0 ? "" : std::to_string(rank.pid),
          escape(phase_text(rank)),
          step,
          rank.step_seconds ? step_time(*rank.step_seconds) : "",
          rank.waiting ? percent(*rank.waiting) : "",
          rank.data_wait ? percent(*rank.data_wait) : "",
          has_memory ? format_bytes(static_cast<std::int64_t>(sample.activity.resident_bytes)) : "",
          !rank.ended && sample.device_bytes > 0 ? format_bytes(sample.device_bytes) : "",
          lines_cell(rank.last_lines, lines)};
}

std::string ranks_part(const JobView& job) {
  if (job.ranks.empty()) return element("p", "The job waits for its nodes.", "soft");
  std::int64_t first_step = 0;
  for (const JobView::Rank& rank : job.ranks)
    first_step = std::max(first_step, rank.sample.step);
  const std::size_t lines = job.ranks.size() <= kFewRanks ? kSentLines : 1;
  std::vector<std::vector<std::string>> rows;
  for (const JobView::Rank& rank : job.ranks) {
    if (rows.size() == kMaxRankRows) break;
    rows.push_back(rank_row(rank, first_step, lines));
  }
  std::string html = "<h2>Ranks</h2>\n";
  if (job.slowest) html += element("p", ddp::launcher::to_text(*job.slowest));
  constexpr std::string_view kHeads =
      "rank, node, pid, phase, step, time of a step, waiting, data wait, "
      "memory, device, last lines";
  html += html_table(split_words(kHeads), rows);
  if (job.ranks.size() > rows.size()) {
    html += element("p",
                    "and " + std::to_string(job.ranks.size() - rows.size()) +
                        " more: see /api/status or /metrics",
                    "soft");
  }
  return html;
}

std::string rounds_part(const JobView& job) {
  std::string html;
  if (!job.nodes.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const JobView::Node& node : job.nodes) {
      if (rows.size() == kMaxNodeRows) break;
      const auto last = node.first_rank + static_cast<int>(node.workers) - 1;
      rows.push_back({std::to_string(node.rank),
                      escape(one_line(node.host, kLongestCell)),
                      std::to_string(node.first_rank) + " to " + std::to_string(last)});
    }
    html += "<h2>Nodes</h2>\n" + html_table({"node", "host", "ranks"}, rows);
    if (job.nodes.size() > rows.size())
      html +=
          element("p", "and " + std::to_string(job.nodes.size() - rows.size()) + " more", "soft");
  }
  if (job.earlier_rounds.empty()) return html;
  html += "<h2>Earlier rounds</h2>\n<ul>";
  for (const std::string& line : job.earlier_rounds)
    html += element("li", line);
  return html + "</ul>\n";
}

}  // namespace

PageParts page_parts(const JobView& job, const JobHistory& history) {
  return {head_part(job), charts_part(history), ranks_part(job), rounds_part(job)};
}

}  // namespace ddp::launcher
