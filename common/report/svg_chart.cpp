#include "common/report/svg_chart.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/report/html.h"

namespace ddp {
namespace {

constexpr std::size_t kMaxPoints = 600;
constexpr std::size_t kMaxMarks = 200;
constexpr std::size_t kMaxDots = 40;  // a curve with at most so many points shows them
constexpr double kWidth = 420;
constexpr double kHeight = 230;
constexpr double kLeft = 54;
constexpr double kRight = 20;  // half of the last number below
constexpr double kTop = 10;
constexpr double kBottom = 36;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool is_empty() const { return !(low <= high); }
};

/// In SVG units with one decimal, to keep a page of many points small.
std::string place(double value) {
  return fmt::format("{:.1f}", value);
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  const bool is_millions = size >= 1e6 && size < 1e9 && std::fmod(value, 1e5) == 0;
  if (is_millions) return fmt::format("{:.4g}M", value / 1e6);
  const bool is_thousands = size >= 1e4 && size < 1e6 && std::fmod(value, 100) == 0;
  return is_thousands ? fmt::format("{:.4g}k", value / 1e3) : fmt::format("{:.4g}", value);
}

/// 1, 2 or 5 times a power of ten, for about `count` steps.
double round_step(double span, int count) {
  const double raw = span / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double times : {1.0, 2.0, 5.0})
    if (raw <= times * power) return times * power;
  return 10 * power;
}

/// Widens the range, so that even a single value has a place.
Range widen(Range range, bool has_margin) {
  double span = range.high - range.low;
  // Wide enough that ticks have different numbers, however large or small the values are.
  if (!(span > std::max(std::abs(range.high) * 1e-9, 1e-250))) {
    const bool is_zero = std::abs(range.high) < 1e-200;
    span = is_zero ? 1 : std::abs(range.high) * 0.1;
    if (!is_zero) range.low -= span / 2;
    range.high += is_zero ? span : span / 2;
  } else if (has_margin) {
    range.low -= span * 0.03;
    range.high += span * 0.05;
  }
  return range;
}

class Drawing {
 public:
  Drawing(Range x, Range y) : x_(x), y_(y) {}

  [[nodiscard]] double across(double x) const {
    return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double down(double y) const {
    return kHeight - kBottom - (y - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }
  [[nodiscard]] const Range& x() const { return x_; }

  void axes(const std::string& x_title) {
    const double foot = kHeight - kBottom;
    const double y_step = round_step(y_.high - y_.low, 4);
    for (double y = std::ceil(y_.low / y_step) * y_step; y <= y_.high; y += y_step) {
      line("grid-line", kLeft, down(y), kWidth - kRight, down(y));
      const double shown = std::abs(y) < y_step * 1e-6 ? 0 : y;
      text(kLeft - 6, down(y) + 4, "end", tick_text(shown));
    }
    const double x_step = std::max(round_step(x_.high - x_.low, 5), 1.0);
    for (double x = std::ceil(x_.low / x_step) * x_step; x <= x_.high; x += x_step)
      text(across(x), foot + 15, "middle", tick_text(x));
    line("axis", kLeft, foot, kWidth - kRight, foot);
    text((kLeft + kWidth - kRight) / 2, kHeight - 5, "middle", x_title);
  }

  void curve(const ChartCurve& curve) {
    const std::vector<ChartPoint> points = thin(curve.points, kMaxPoints);
    const std::string color = std::to_string(curve.color % kChartColors);
    const std::string faint = curve.is_faint ? " faint" : "";
    std::string path;
    bool is_new = true;
    for (const ChartPoint& point : points) {
      const bool is_there = std::isfinite(point.y) && std::isfinite(point.x);
      if (is_there)
        path += (is_new ? "M" : "L") + place(across(point.x)) + " " + place(down(point.y));
      is_new = !is_there;
    }
    svg_ += "<path class=\"curve s" + color + faint + "\" d=\"" + path + "\"/>\n";
    if (points.size() > kMaxDots || curve.is_faint) return;
    for (const ChartPoint& point : points) {
      if (!std::isfinite(point.y)) continue;
      svg_ +=
          "<circle class=\"dot d" + color + "\" r=\"2.6\" cx=\"" + place(across(point.x)) +
          "\" cy=\"" + place(down(point.y)) + "\">" +
          element("title", curve.name + " " + short_number(point.y) + " at " + tick_text(point.x)) +
          "</circle>\n";
    }
  }

  void mark(const ChartMark& mark) {
    if (!(mark.x >= x_.low && mark.x <= x_.high)) return;
    const std::string x = place(across(mark.x));
    const double foot = kHeight - kBottom;
    const std::string title = element("title", mark.text);
    if (mark.kind == ChartMark::Kind::save) {
      const double middle = across(mark.x);
      svg_ += "<path class=\"save\" d=\"M" + x + " " + place(foot - 6) + "L" + place(middle - 3.5) +
              " " + place(foot) + "L" + place(middle + 3.5) + " " + place(foot) + "Z\">" + title +
              "</path>\n";
      return;
    }
    std::string kind = "restart";
    if (mark.kind == ChartMark::Kind::best) kind = "best";
    if (mark.kind == ChartMark::Kind::end) kind = "end-" + mark.state;
    svg_ += "<line class=\"mark " + escape(kind) + "\" x1=\"" + x + "\" x2=\"" + x + "\" y1=\"" +
            place(kTop) + "\" y2=\"" + place(foot) + "\">" + title + "</line>\n";
  }

  [[nodiscard]] const std::string& svg() const { return svg_; }

 private:
  void line(const std::string& css_class, double x1, double y1, double x2, double y2) {
    svg_ += "<line class=\"" + css_class + "\" x1=\"" + place(x1) + "\" y1=\"" + place(y1) +
            "\" x2=\"" + place(x2) + "\" y2=\"" + place(y2) + "\"/>\n";
  }
  void text(double x, double y, const std::string& anchor, const std::string& words) {
    svg_ += "<text x=\"" + place(x) + "\" y=\"" + place(y) + "\" text-anchor=\"" + anchor + "\">" +
            escape(words) + "</text>\n";
  }

  Range x_;
  Range y_;
  std::string svg_;
};

std::string legend_entry(const ChartCurve& curve) {
  const auto lost = std::ranges::count_if(
      curve.points, [](const ChartPoint& point) { return !std::isfinite(point.y); });
  const std::string note =
      lost > 0 ? " (" + std::to_string(lost) + " of them not a finite number)" : "";
  return "<span><span class=\"key k" + std::to_string(curve.color % kChartColors) +
         (curve.is_faint ? " k-faint" : "") + "\"></span>" + escape(curve.name + note) + "</span>";
}

/// Keeps every n-th mark if there are too many, and all marks that are not checkpoints.
std::vector<ChartMark> choose_marks(const std::vector<ChartMark>& marks) {
  std::vector<ChartMark> chosen;
  const std::size_t stride = marks.size() / kMaxMarks + 1;
  for (std::size_t i = 0; i < marks.size(); ++i)
    if (i % stride == 0 || marks[i].kind != ChartMark::Kind::save) chosen.push_back(marks[i]);
  return chosen;
}

}  // namespace

std::vector<ChartPoint> thin(const std::vector<ChartPoint>& points, std::size_t most) {
  if (points.size() <= most || most < 6) return points;
  const std::size_t stretches = most / 3;
  std::vector<ChartPoint> kept;
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t begin = i * points.size() / stretches;
    const std::size_t end = (i + 1) * points.size() / stretches;
    std::size_t low = end;
    std::size_t high = end;
    std::size_t lost = end;
    for (std::size_t j = begin; j < end; ++j) {
      if (!std::isfinite(points[j].y)) {
        lost = j;
        continue;
      }
      if (low == end || points[j].y < points[low].y) low = j;
      if (high == end || points[j].y > points[high].y) high = j;
    }
    std::array<std::size_t, 3> chosen{low, high, lost};
    std::ranges::sort(chosen);
    std::size_t before = end;
    for (const std::size_t j : chosen) {
      if (j != end && j != before) kept.push_back(points[j]);
      before = j;
    }
  }
  return kept;
}

std::string svg_chart(const ChartRequest& request) {
  Range x;
  Range y;
  for (const ChartCurve& curve : request.curves) {
    for (const ChartPoint& point : curve.points) {
      x.add(point.x);
      y.add(point.y);
    }
  }
  if (x.is_empty() || y.is_empty()) return "";
  for (const ChartMark& mark : request.marks)
    if (mark.kind != ChartMark::Kind::save) x.add(mark.x);
  x.add(0);  // so that charts of one run align
  if (request.starts_at_zero) y.add(0);
  y = widen(y, !request.starts_at_zero);
  if (request.starts_at_zero) y.high *= 1.05;
  Drawing drawing(widen(x, false), y);
  drawing.axes(request.x_title);
  for (const ChartCurve& curve : request.curves)
    drawing.curve(curve);
  for (const ChartMark& mark : choose_marks(request.marks))
    drawing.mark(mark);
  std::string legend;
  for (const ChartCurve& curve : request.curves)
    if (!curve.points.empty()) legend += legend_entry(curve);
  return "<div class=\"card\">" + element("h3", request.title) + "<svg viewBox=\"0 0 " +
         place(kWidth) + " " + place(kHeight) + "\" role=\"img\" aria-label=\"" +
         escape(request.title) + "\">\n" + drawing.svg() + "</svg><div class=\"legend\">" + legend +
         "</div></div>\n";
}

}  // namespace ddp
