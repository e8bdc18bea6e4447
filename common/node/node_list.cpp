#include "common/node/node_list.h"

#include <algorithm>
#include <cstdint>

namespace ddp {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kLongestName = 253;   // of a DNS name
constexpr std::size_t kLongestNumber = 12;  // digits in a bracket
constexpr std::size_t kMaxBrackets = 8;     // in one name

/// Splits at the separators outside of brackets.
std::vector<std::string_view> split_outside(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    if (i < text.size() && (inside || text[i] != separator)) continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  return parts;
}

bool is_number(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= kLongestNumber && std::ranges::all_of(text, is_digit);
}

std::uint64_t number_of_digits(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char digit : digits)
    number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  return number;
}

std::string padded(std::uint64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

class ListReader {
 public:
  NodeList read(std::string_view text) {
    for (const std::string_view item : split_outside(text, ',')) {
      expand(item);
      if (!list_.problem.empty()) {
        list_.names.clear();
        break;
      }
    }
    return std::move(list_);
  }

 private:
  void fail(std::string_view item, const std::string& why) {
    constexpr std::size_t kShown = 80;
    list_.problem = std::string(item.substr(0, kShown)) + ": " + why;
  }

  /// The numbers of "01-04,7". Empty after a problem.
  Words numbers(std::string_view item, std::string_view inside) {
    Words words;
    for (const std::string_view range : split_outside(inside, ',')) {
      const std::size_t dash = range.find('-');
      const std::string_view low = range.substr(0, dash);
      const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
      if (!is_number(low) || !is_number(high) || number_of_digits(high) < number_of_digits(low)) {
        fail(item, "in brackets stand numbers and ranges, as [01-04,7]");
        return {};
      }
      if (number_of_digits(high) - number_of_digits(low) >= kMaxListedNodes - words.size()) {
        fail(item, "more than " + std::to_string(kMaxListedNodes) + " names");
        return {};
      }
      for (std::uint64_t number = number_of_digits(low); number <= number_of_digits(high); ++number)
        words.push_back(padded(number, low.size()));
    }
    return words;
  }

  /// Each of `names` with each of `endings`; false after a problem.
  bool append(std::string_view item, Words& names, const Words& endings) {
    if (names.size() * endings.size() > kMaxListedNodes - list_.names.size()) {
      fail(item, "more than " + std::to_string(kMaxListedNodes) + " names");
      return false;
    }
    Words longer;
    longer.reserve(names.size() * endings.size());
    for (const std::string& name : names) {
      for (const std::string& ending : endings)
        longer.push_back(name + ending);
    }
    names = std::move(longer);
    return true;
  }

  void expand(std::string_view item) {
    const auto is_odd = [](char c) { return c <= ' ' || c == '\x7f' || c == '/'; };
    if (item.empty()) return fail(item, "an empty name");
    if (item.size() > kLongestName * 16 || std::ranges::any_of(item, is_odd))
      return fail("a name", "too long, or with blanks, control characters or a /");
    Words names{""};
    std::string_view rest = item;
    for (std::size_t brackets = 0; !rest.empty(); ++brackets) {
      const std::size_t open = std::min(rest.find_first_of("[]"), rest.size());
      if (!append(item, names, {std::string(rest.substr(0, open))})) return;
      rest.remove_prefix(open);
      if (rest.empty()) break;
      const std::size_t close = rest.find_first_of("[]", 1);
      const bool fits = rest[0] == '[' && close != std::string_view::npos && rest[close] == ']';
      if (!fits || brackets == kMaxBrackets)
        return fail(item, brackets == kMaxBrackets ? "too many brackets" : "brackets do not fit");
      const Words words = numbers(item, rest.substr(1, close - 1));
      if (words.empty() || !append(item, names, words)) return;
      rest.remove_prefix(close + 1);
    }
    if (names.back().size() > kLongestName) return fail("a name", "too long");
    list_.names.insert(list_.names.end(), names.begin(), names.end());
  }

  NodeList list_;
};

}  // namespace

NodeList read_node_list(std::string_view text) {
  return ListReader().read(text);
}

}  // namespace ddp
