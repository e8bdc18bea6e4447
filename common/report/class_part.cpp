#include "common/report/class_part.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/report/html.h"

namespace ddp {
namespace {

constexpr std::size_t kMaxInMatrix = 101;
constexpr std::size_t kMaxCounts = 31;  // up to so many classes cells show numbers
constexpr std::size_t kMaxConfused = 20;
constexpr std::size_t kLongestClass = 24;

std::string shown_name(const std::string& name) {
  return escape(name.size() > kLongestClass ? name.substr(0, kLongestClass) + "..." : name);
}

std::string pixels(double value) {
  return fmt::format("{:.0f}", value);
}

struct Sums {
  std::vector<std::int64_t> truths;
  std::vector<std::int64_t> answers;
  std::int64_t all = 0;
  std::int64_t right = 0;
};

Sums sum_up(const RecordedClasses& classes) {
  const std::size_t side = classes.names.size();
  Sums sums{std::vector<std::int64_t>(side), std::vector<std::int64_t>(side)};
  for (std::size_t truth = 0; truth < side; ++truth) {
    for (std::size_t answer = 0; answer < side; ++answer) {
      const std::int64_t count = classes.count(truth, answer);
      sums.truths[truth] += count;
      sums.answers[answer] += count;
      sums.all += count;
      if (truth == answer) sums.right += count;
    }
  }
  return sums;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole)
                   : std::numeric_limits<double>::quiet_NaN();
}

std::string percent(double value) {
  return std::isfinite(value) ? fmt::format("{:.1f} %", 100 * value) : "-";
}

std::string table_of(const RecordedClasses& classes, const Sums& sums) {
  const bool is_detector = classes.has_background;
  std::vector<std::string> heads{"class", is_detector ? "objects" : "images"};
  heads.emplace_back(is_detector ? "found" : "accuracy");
  heads.emplace_back(is_detector ? "right of what was found" : "precision");
  for (const auto& [name, values] : classes.numbers)
    heads.push_back(escape(name));
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < classes.names.size() - (is_detector ? 1 : 0); ++i) {
    const std::int64_t right = classes.count(i, i);
    std::vector<std::string> row{shown_name(classes.names[i]),
                                 grouped(sums.truths[i]),
                                 percent(share(right, sums.truths[i])),
                                 percent(share(right, sums.answers[i]))};
    for (const auto& [name, values] : classes.numbers)
      row.push_back(i < values.size() ? metric_number(name, values[i]) : "-");
    rows.push_back(std::move(row));
  }
  const std::string table = html_table(heads, rows);
  if (rows.size() <= kMaxInMatrix) return table;
  return "<details><summary>" + std::to_string(rows.size()) + " classes</summary>" + table +
         "</details>";
}

/// A row per true class, a column per answer; the darker a cell, the larger its share of the row.
std::string matrix_of(const RecordedClasses& classes, const Sums& sums) {
  const std::size_t side = classes.names.size();
  const bool has_counts = side <= kMaxCounts;
  const double cell = has_counts ? 34 : 9;
  std::size_t longest = 0;
  for (const std::string& name : classes.names)
    longest = std::max(longest, std::min(name.size(), kLongestClass + 3));
  const double words = 7 * static_cast<double>(longest);
  const double left = has_counts ? 16 + words : 12;
  const double top = has_counts ? 20 + 0.8 * words : 12;
  const double size = static_cast<double>(side) * cell;
  // Do not enlarge a small matrix, as its words would grow, too.
  std::string svg = "<svg style=\"max-width:" + pixels(left + size + 8) + "px\" viewBox=\"0 0 " +
                    pixels(left + size + 8) + " " + pixels(top + size + 8) +
                    "\" role=\"img\" aria-label=\"confusion matrix\">\n";
  const auto at = [&](std::size_t number, double start) {
    return start + static_cast<double>(number) * cell;
  };
  svg += "<rect class=\"axis\" fill=\"none\" x=\"" + pixels(left) + "\" y=\"" + pixels(top) +
         "\" width=\"" + pixels(size) + "\" height=\"" + pixels(size) + "\"/>\n";
  for (std::size_t truth = 0; truth < side; ++truth) {
    for (std::size_t answer = 0; answer < side; ++answer) {
      const std::int64_t count = classes.count(truth, answer);
      if (count == 0) continue;
      const double part = share(count, sums.truths[truth]);
      const std::string x = pixels(at(answer, left));
      const std::string y = pixels(at(truth, top));
      // Keep a rare cell visibly different from an empty one.
      svg += "<g><rect class=\"" + std::string(truth == answer ? "hit" : "cell") +
             "\" fill-opacity=\"" + fmt::format("{:.2f}", 0.08 + 0.77 * part) + "\" x=\"" + x +
             "\" y=\"" + y + "\" width=\"" + pixels(cell) + "\" height=\"" + pixels(cell) + "\"/>";
      if (has_counts) {
        svg += "<text class=\"count\" text-anchor=\"middle\" x=\"" +
               pixels(at(answer, left) + cell / 2) + "\" y=\"" +
               pixels(at(truth, top) + cell / 2 + 4) + "\">" + std::to_string(count) + "</text>";
      }
      svg += element("title",
                     classes.names[truth] + " taken for " + classes.names[answer] + ": " +
                         std::to_string(count)) +
             "</g>\n";
    }
  }
  for (std::size_t i = 0; has_counts && i < side; ++i) {
    const std::string name = shown_name(classes.names[i]);
    const std::string middle = pixels(at(i, left) + cell / 2 + 4);
    svg += "<text text-anchor=\"end\" x=\"" + pixels(left - 6) + "\" y=\"" +
           pixels(at(i, top) + cell / 2 + 4) + "\">" + name + "</text>\n";
    svg += "<text x=\"" + middle + "\" y=\"" + pixels(top - 6) + "\" transform=\"rotate(-60 " +
           middle + " " + pixels(top - 6) + ")\">" + name + "</text>\n";
  }
  return "<h3>Confusion matrix</h3><p class=\"soft\">A row for each true class, a column for each "
         "answer; the darker a cell, the larger its share of the row.</p><div class=\"wide\">" +
         svg + "</svg></div>\n";
}

std::string confused_of(const RecordedClasses& classes, const Sums& sums) {
  struct Pair {
    std::int64_t count = 0;
    std::size_t truth = 0;
    std::size_t answer = 0;
  };
  std::vector<Pair> pairs;
  const std::size_t side = classes.names.size();
  for (std::size_t truth = 0; truth < side; ++truth)
    for (std::size_t answer = 0; answer < side; ++answer)
      if (truth != answer && classes.count(truth, answer) > 0)
        pairs.push_back({classes.count(truth, answer), truth, answer});
  if (pairs.empty()) return "";
  std::ranges::stable_sort(pairs, std::greater(), &Pair::count);
  pairs.resize(std::min(pairs.size(), kMaxConfused));
  std::vector<std::vector<std::string>> rows;
  for (const Pair& pair : pairs) {
    rows.push_back({shown_name(classes.names[pair.truth]),
                    shown_name(classes.names[pair.answer]),
                    grouped(pair.count),
                    percent(share(pair.count, sums.truths[pair.truth]))});
  }
  return "<details><summary>Most often confused</summary>" +
         html_table({"true class", "answer", "times", "of that class"}, rows) + "</details>\n";
}

}  // namespace

std::string class_part(const RecordedClasses& classes) {
  const Sums sums = sum_up(classes);
  if (sums.all == 0) return "";
  std::string html = "<h2>Classes</h2>\n<p class=\"soft\">Of the last evaluation, after step " +
                     grouped(classes.step);
  html += classes.has_background ? ".</p>\n"
                                 : ": " + percent(share(sums.right, sums.all)) + " of " +
                                       grouped(sums.all) + " images are right.</p>\n";
  html += "<div class=\"pair\">\n<div class=\"card\">" + table_of(classes, sums) +
          "</div>\n<div class=\"card\">";
  if (classes.names.size() <= kMaxInMatrix) html += matrix_of(classes, sums);
  return html + confused_of(classes, sums) + "</div>\n</div>\n";
}

}  // namespace ddp
