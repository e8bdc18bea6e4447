#include "worker/data/format/yolo_labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "common/text/one_line.h"

namespace ddp::worker {
namespace {

constexpr std::string_view kSpaces = " \t";

/// Takes the first word off `line`; "" at the end of the line.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(kSpaces), line.size());
  const std::size_t end = std::min(line.find_first_of(kSpaces, begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::optional<double> number_of(std::string_view word) {
  double number = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || stop != word.data() + word.size()) return {};
  return number;
}

/// Returns why these numbers are not a box, or "".
std::string read_shares(double center_x, double center_y, double width, double height, Box& into) {
  const std::string why_not = read_box(center_x, center_y, width, height, into);
  if (why_not.empty()) return "";
  return "the box " + to_text(center_x, center_y, width, height) + " " + why_not +
         " (centre and size, in shares of the image's size)";
}

/// Makes the box of an outline x1 y1 x2 y2 ...
std::string read_outline(const std::vector<double>& points, Box& into) {
  double left = points[0];
  double right = left;
  double top = points[1];
  double bottom = top;
  for (std::size_t i = 0; i < points.size(); i += 2) {
    left = std::min(left, points[i]);
    right = std::max(right, points[i]);
    top = std::min(top, points[i + 1]);
    bottom = std::max(bottom, points[i + 1]);
  }
  return read_shares((left + right) / 2, (top + bottom) / 2, right - left, bottom - top, into);
}

std::string read_line(std::string_view line, AnnotatedBox& into) {
  const std::string_view word = take_word(line);
  // A float, because some tools write 3.0.
  const std::optional<double> label = number_of(word);
  if (!label || !(*label >= 0 && *label < kMaxClasses) || *label != std::floor(*label))
    return "\"" + one_line(word, 40) + "\" is not the number of a class";
  into.label = static_cast<int>(*label);
  std::vector<double> numbers;
  for (std::string_view next = take_word(line); !next.empty(); next = take_word(line)) {
    const std::optional<double> number = number_of(next);
    if (!number) return "\"" + one_line(next, 40) + "\" is not a number";
    numbers.push_back(*number);
  }
  if (numbers.size() == 4)
    return read_shares(numbers[0], numbers[1], numbers[2], numbers[3], into.box);
  if (numbers.size() >= 6 && numbers.size() % 2 == 0) return read_outline(numbers, into.box);
  return std::to_string(numbers.size()) +
         " numbers behind the class; expected x_center y_center width height";
}

/// Takes the first line off `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_empty(std::string_view line) {
  return line.find_first_not_of(kSpaces) == std::string_view::npos;
}

}  // namespace

std::string read_yolo_labels(std::string_view text, std::vector<AnnotatedBox>& into) {
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (is_empty(line)) continue;
    AnnotatedBox box;
    const std::string why_not = read_line(line, box);
    if (!why_not.empty()) return "line " + std::to_string(number) + ": " + why_not;
    into.push_back(box);
  }
  return "";
}

int line_of_object(std::string_view text, std::size_t object) {
  for (int number = 1; !text.empty(); ++number) {
    if (!is_empty(take_line(text)) && object-- == 0) return number;
  }
  return 0;
}

}  // namespace ddp::worker
