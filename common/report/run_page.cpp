#include "common/report/run_page.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/cli/log.h"
#include "common/files/files.h"
#include "common/report/class_part.h"
#include "common/report/html.h"
#include "common/report/rank_part.h"
#include "common/report/run_reader.h"
#include "common/report/svg_chart.h"
#include "common/text/join_words.h"
#include "common/text/time_text.h"

namespace ddp {
namespace {

constexpr std::size_t kMaxEpochs = 100;  // of a table of epochs
constexpr std::size_t kMaxColumns = 12;
constexpr std::size_t kMaxMetrics = 12;  // charts

std::string tile(const std::string& what, const std::string& value) {
  return "<div class=\"tile\"><b>" + escape(value) + "</b><span>" + escape(what) +
         "</span></div>\n";
}

std::string moment(double time) {
  if (!(time > 0 && time < 1e11)) return "-";
  return utc_text(static_cast<std::time_t>(time), "%Y-%m-%d %H:%M:%S UTC");
}

/// "test accuracy" for "test_accuracy".
std::string spoken(const std::string& name) {
  for (const char* const half : {"train_", "test_"}) {
    if (name.starts_with(half))
      return std::string(half, std::char_traits<char>::length(half) - 1) + " " +
             name.substr(std::char_traits<char>::length(half));
  }
  return name;
}

std::string verdict_line(const RunRecord& run) {
  if (run.state == "running")
    return "The end of this run is not written: it is still running, or nobody was left to tell.";
  if (run.state == "lost")
    return "The end of this run is not written, and nothing of it runs any more: it was killed, or "
           "could not write.";
  if (run.state == "unknown") return "What became of this run is not known.";
  std::string line = "Exit code " + std::to_string(run.exit_code);
  if (!run.meaning.empty() && run.meaning != run.state) line += ": " + run.meaning;
  if (!run.decided_by.empty() && run.state != "finished") line += ", decided by " + run.decided_by;
  return line + ".";
}

std::string head_part(const RunRecord& run) {
  const Monitored monitored = monitored_of(run);
  const std::optional<std::size_t> best = best_of(run, monitored);
  std::string html = "<div class=\"head\">" + element("h1", run.name) + "<span class=\"badge " +
                     escape(run.state) + "\">" + escape(run.state) + "</span></div>\n" +
                     element("p", verdict_line(run), "soft");
  html += "<div class=\"tiles\">\n";
  if (best) {
    const RecordedEpoch& one = run.epochs[*best];
    html += tile("best " + spoken(monitored.metric) + ", epoch " + std::to_string(one.epoch),
                 metric_number(monitored.metric, one.number(monitored.metric)));
  }
  const auto whole = std::ranges::count(run.epochs, true, &RecordedEpoch::is_whole);
  html += tile("epochs", std::to_string(whole));
  html += tile("steps", grouped(last_step(run)));
  if (const std::optional<double> time = time_of(run)) html += tile("time", time_text(*time));
  if (const double rate = throughput_of(run); std::isfinite(rate) && std::abs(rate) < 1e15)
    html += tile("images/s, median of epochs", grouped(static_cast<std::int64_t>(rate)));
  std::size_t ranks = static_cast<std::size_t>(run.world_size);
  if (ranks == 0 && !run.recorded_rounds.empty()) ranks = run.recorded_rounds.back().ranks.size();
  if (ranks > 0) html += tile(ranks == 1 ? "rank" : "ranks", std::to_string(ranks));
  // Each start of the command begins with round 0.
  const auto begun =
      static_cast<std::size_t>(std::ranges::count(run.recorded_rounds, 0, &RecordedRound::round));
  const std::size_t continued = std::max<std::size_t>(begun, 1) - 1;
  if (continued > 0) html += tile("times continued", std::to_string(continued));
  html += tile("restarts", std::to_string(run.recorded_rounds.size() - begun));
  return html + "</div>\n";
}

std::string lines_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += line + "\n";
  return text;
}

std::string failure_part(const RunRecord& run) {
  std::string html;
  const auto add = [&html](const std::string& text) {
    if (!text.empty()) html += element("p", text);
  };
  add(run.failure);
  if (run.cause) {
    if (!run.cause->where.empty()) html += element("h3", run.cause->where);
    add(run.cause->what);
    add(run.cause->message);
    if (!run.cause->stack_location.empty()) add("It stood in " + run.cause->stack_location + ".");
    if (!run.cause->hint.empty()) add("Hint: " + run.cause->hint);
    if (!run.cause->last_lines.empty())
      html += "<p class=\"soft\">Last lines of its stderr:</p>" +
              element("pre", lines_of(run.cause->last_lines));
  }
  add(run.policy);
  std::string all;
  if (!html.empty())
    all = "<h2>What went wrong first</h2>\n<div class=\"card cause\">" + html + "</div>\n";
  if (!run.earlier_rounds.empty())
    all += "<h2>Earlier rounds</h2>\n<div class=\"card\">" +
           element("pre", lines_of(run.earlier_rounds)) + "</div>\n";
  return all;
}

std::vector<ChartMark> marks_of(const RunRecord& run) {
  std::vector<ChartMark> marks;
  for (const std::int64_t step : run.saves)
    marks.push_back({ChartMark::Kind::save,
                     static_cast<double>(step),
                     "checkpoint after step " + std::to_string(step),
                     ""});
  for (std::size_t i = 1; i < run.recorded_rounds.size(); ++i) {
    const RecordedRound& start = run.recorded_rounds[i];
    marks.push_back({ChartMark::Kind::restart,
                     static_cast<double>(start.step),
                     "went on after step " + std::to_string(start.step) + " with " +
                         std::to_string(start.ranks.size()) + " ranks",
                     ""});
  }
  const Monitored monitored = monitored_of(run);
  if (const std::optional<std::size_t> best = best_of(run, monitored)) {
    const RecordedEpoch& one = run.epochs[*best];
    marks.push_back({ChartMark::Kind::best,
                     static_cast<double>(one.step),
                     "best " + spoken(monitored.metric) + ", epoch " + std::to_string(one.epoch),
                     ""});
  }
  if (const std::int64_t step = last_step(run); step > 0)
    marks.push_back({ChartMark::Kind::end, static_cast<double>(step), run.state, run.state});
  return marks;
}

ChartCurve curve_of(const RunRecord& run, const std::string& name, int color) {
  ChartCurve curve{spoken(name), {}, color, false};
  for (const RecordedEpoch& one : run.epochs) {
    if (one.numbers.contains(name) && (one.is_whole || std::isfinite(one.number(name))))
      curve.points.push_back({static_cast<double>(one.step), one.number(name)});
  }
  // An epoch without an evaluation makes no gap.
  if (name.starts_with("test_"))
    std::erase_if(curve.points, [](const ChartPoint& point) { return !std::isfinite(point.y); });
  return curve;
}

ChartCurve step_curve(const RunRecord& run,
                      const std::string& name,
                      double RecordedStep::*number,
                      bool is_faint) {
  ChartCurve curve{name, {}, 0, is_faint};
  for (const RecordedStep& one : run.steps)
    curve.points.push_back({static_cast<double>(one.step), one.*number});
  return curve;
}

/// The metrics drawn besides the loss: names without "train_" or "test_", also "loss/box".
std::vector<std::string> metric_names(const RunRecord& run) {
  std::set<std::string> names;
  for (const RecordedEpoch& one : run.epochs) {
    for (const auto& [name, value] : one.numbers) {
      for (const std::string half : {"train_", "test_"})
        if (name.starts_with(half) && name != half + "loss") names.insert(name.substr(half.size()));
    }
  }
  // The monitored metric comes first, parts of the loss last.
  std::vector<std::string> ordered(names.begin(), names.end());
  const std::string monitored = monitored_of(run).metric;
  std::ranges::stable_sort(ordered, {}, [&](const std::string& name) {
    if ("test_" + name == monitored) return 0;
    return name.find('/') == std::string::npos ? 1 : 2;
  });
  if (ordered.size() > kMaxMetrics) ordered.resize(kMaxMetrics);
  return ordered;
}

std::string begun_large(std::string name) {
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 32);
  return name;
}

std::string curves_part(const RunRecord& run) {
  const std::vector<ChartMark> marks = marks_of(run);
  std::string html =
      svg_chart({.title = "Loss",
                 .curves = {step_curve(run, "of single steps", &RecordedStep::loss, true),
                            curve_of(run, "train_loss", 0),
                            curve_of(run, "test_loss", 1)},
                 .marks = marks});
  for (const std::string& name : metric_names(run))
    html +=
        svg_chart({.title = begun_large(name),
                   .curves = {curve_of(run, "train_" + name, 0), curve_of(run, "test_" + name, 1)},
                   .marks = marks});
  html += svg_chart({.title = "Learning rate",
                     .curves = {step_curve(run, "learning rate", &RecordedStep::lr, false)},
                     .marks = marks,
                     .starts_at_zero = true});
  ChartCurve epochs = curve_of(run, "images_per_s", 1);
  epochs.name = "of epochs";
  html += svg_chart(
      {.title = "Images/s",
       .curves = {step_curve(run, "between records", &RecordedStep::images_per_s, true), epochs},
       .marks = marks,
       .starts_at_zero = true});
  if (html.empty())
    return "<h2>Curves</h2>\n<p class=\"soft\">Nothing was written that could be drawn: no step "
           "was "
           "recorded yet, or metrics.jsonl and metrics.csv are switched off.</p>\n";
  std::string note;
  const auto kept = static_cast<std::int64_t>(run.steps.size());
  if (kept < run.steps_written)
    note = " Of " + grouped(run.steps_written) + " recorded steps " + grouped(kept) + " are drawn.";
  return "<h2>Curves</h2>\n<p class=\"soft\">Triangles are checkpoints, the dotted line is the "
         "best "
         "evaluation, dashed lines are where the run went on, the line at the end is how it "
         "ended." +
         note + "</p>\n<div class=\"grid\">\n" + html + "</div>\n";
}

std::string epochs_part(const RunRecord& run) {
  if (run.epochs.empty()) return "";
  std::set<std::string> names;
  for (const RecordedEpoch& one : run.epochs)
    for (const auto& [name, value] : one.numbers)
      if ((name.starts_with("train_") || name.starts_with("test_")) &&
          name.find('/') == std::string::npos)
        names.insert(name);
  std::vector<std::string> columns(names.begin(), names.end());
  std::ranges::stable_sort(
      columns, {}, [](const std::string& name) { return name.starts_with("test_"); });
  if (columns.size() > kMaxColumns) columns.resize(kMaxColumns);
  std::vector<std::string> heads{"epoch", "step"};
  for (const std::string& name : columns)
    heads.push_back(escape(spoken(name)));
  heads.emplace_back("images/s");
  heads.emplace_back("time");
  const std::optional<std::size_t> best = best_of(run, monitored_of(run));
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> classes;
  const std::size_t first = run.epochs.size() > kMaxEpochs ? run.epochs.size() - kMaxEpochs : 0;
  for (std::size_t i = 0; i < run.epochs.size(); ++i) {
    if (i < first && i != best) continue;
    const RecordedEpoch& one = run.epochs[i];
    std::vector<std::string> row{std::to_string(one.epoch) + (i == best ? " (best)" : ""),
                                 grouped(one.step)};
    for (const std::string& name : columns)
      row.push_back(metric_number(name, one.number(name)));
    const double rate = one.number("images_per_s");
    row.push_back(std::isfinite(rate) && std::abs(rate) < 1e15
                      ? grouped(static_cast<std::int64_t>(rate))
                      : "-");
    row.push_back(time_text(one.number("seconds")));
    rows.push_back(std::move(row));
    classes.emplace_back(i == best ? "best" : "");
  }
  const std::string note = first > 0
                               ? element("p",
                                         "The last " + std::to_string(kMaxEpochs) + " of " +
                                             std::to_string(run.epochs.size()) + ", and the best.",
                                         "soft")
                               : "";
  return "<h2>Epochs</h2>\n" + note + "<div class=\"card\">" + html_table(heads, rows, classes) +
         "</div>\n";
}

std::string keys_part(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows;
  for (const ChangedKey& key : run.keys)
    rows.push_back({element("code", key.path),
                    element("code", key.value),
                    element("code", key.default_value, "soft")});
  if (rows.empty()) return "";
  return "<h2>Keys of the job that differ from their defaults</h2>\n<div class=\"card\">" +
         html_table({"key", "value", "default"}, rows) + "</div>\n";
}

std::string rounds_part(const RunRecord& run) {
  if (run.recorded_rounds.size() < 2) return "";
  std::vector<std::vector<std::string>> rows;
  for (const RecordedRound& start : run.recorded_rounds)
    rows.push_back({escape(moment(start.time)),
                    std::to_string(start.round),
                    grouped(start.step),
                    std::to_string(start.ranks.size())});
  return "<h2>Starts</h2>\n<div class=\"card\">" +
         html_table({"time", "round", "after step", "ranks"}, rows) + "</div>\n";
}

std::string setting_part(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&rows](const std::string& what, const std::string& value) {
    if (!value.empty()) rows.push_back({escape(what), escape(value)});
  };
  const RecordedRound newest =
      run.recorded_rounds.empty() ? RecordedRound() : run.recorded_rounds.back();
  add("command", run.command);
  add("run directory", run.path);
  add("working directory", newest.directory);
  add("git commit", newest.commit);
  add("versions", newest.versions);
  if (newest.time > 0) add("began", moment(run.recorded_rounds.front().time));
  if (run.batch > 0) add("whole batch", grouped(run.batch));
  const auto shown = [&run](const std::string& name) {
    return name + (name == run.best_checkpoint ? " (best)" : "");
  };
  add("checkpoints", join_words(run.checkpoints, ", ", shown));
  for (const std::string& problem : run.problems)
    add("not shown", problem);
  return "<h2>Where and how</h2>\n<div class=\"card\">" + html_table({"", ""}, rows) + "</div>\n";
}

}  // namespace

std::string run_page(const RunRecord& run) {
  const std::string body = head_part(run) + failure_part(run) + curves_part(run) +
                           epochs_part(run) + (run.classes ? class_part(*run.classes) : "") +
                           rank_part(run) + rounds_part(run) + keys_part(run) + setting_part(run);
  return html_page(run.name + " (" + run.state + ")", body);
}

void write_run_page(const OwnedDir& directory) {
  try {
    replace_file(directory, kReportName, run_page(read_run(directory)));
  } catch (const std::exception& error) {
    log::warning(std::string("cannot write ") + kReportName + ": " + error.what());
  }
}

}  // namespace ddp
