#include "common/files/unclosed_sign.h"

#include <limits>
#include <vector>

namespace ddp {
namespace {

/// Reads the text character by character, and knows the line and column of each.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[nodiscard]] bool at_end() const { return i_ >= text_.size(); }
  [[nodiscard]] char now() const { return at_end() ? '\n' : text_[i_]; }
  [[nodiscard]] char before() const { return i_ == 0 ? '\n' : text_[i_ - 1]; }
  [[nodiscard]] char next() const { return i_ + 1 < text_.size() ? text_[i_ + 1] : '\n'; }
  [[nodiscard]] Mark mark() const { return mark_; }
  [[nodiscard]] bool is_before(Mark other) const {
    return mark_.line < other.line || (mark_.line == other.line && mark_.column < other.column);
  }

  void step() {
    const bool is_line_end = now() == '\n';
    ++i_;
    mark_ = is_line_end ? Mark{mark_.line + 1, 1} : Mark{mark_.line, mark_.column + 1};
  }

  /// Steps from a quote to the character after its end. False: the text ends inside the quote.
  bool skip_quoted() {
    const char quote = now();
    for (step(); !at_end(); step()) {
      if (quote == '"' && now() == '\\') {
        step();
      } else if (now() == quote && quote == '\'' && next() == quote) {
        step();
      } else if (now() == quote) {
        step();
        return true;
      }
    }
    return false;
  }

 private:
  std::string_view text_;
  std::size_t i_ = 0;
  Mark mark_;
};

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// The innermost bracket, brace or quote that is open at `end`.
std::optional<Unclosed> find_open(std::string_view text, Mark end) {
  std::vector<Unclosed> open;
  std::optional<Unclosed> late;  // a quote that is closed in another line, the one of `end`
  bool may_begin = true;         // a value may begin here; inside a plain word [ or " is a letter
  for (Cursor at(text); !at.at_end() && at.is_before(end);) {
    const char c = at.now();
    const Unclosed here{at.mark(), c};
    if (c == '#' && is_blank(at.before())) {
      while (!at.at_end() && at.now() != '\n')
        at.step();
      continue;
    }
    // In a block scalar brackets and quotes are letters.
    if ((c == '|' || c == '>') && may_begin && open.empty()) return std::nullopt;
    if ((c == '"' || c == '\'') && may_begin) {
      if (!at.skip_quoted()) return here;
      late.reset();
      if (at.mark().line > here.mark.line && at.mark().line == end.line) late = here;
      may_begin = false;
      continue;
    }
    const bool is_open = (c == '[' || c == '{') && may_begin;
    const bool is_close = (c == ']' || c == '}') && !open.empty();
    if (is_open) open.push_back(here);
    if (is_close && (open.back().sign == '[') != (c == ']')) return open.back();
    if (is_close) open.pop_back();
    const bool is_separator = (c == ',' && !open.empty()) || c == '\n' ||
                              ((c == ':' || c == '-' || c == '?') && is_blank(at.next()));
    if (is_open || is_separator) {
      may_begin = true;
    } else if (!is_blank(c)) {
      may_begin = false;
    }
    at.step();
  }
  return late || open.empty() ? late : open.back();
}

}  // namespace

std::optional<Unclosed> find_unclosed(std::string_view text, Mark noticed) {
  const std::optional<Unclosed> open = find_open(text, noticed);
  if (!open || open->sign == '"' || open->sign == '\'') return open;
  const std::optional<Unclosed> at_end = find_open(text, {std::numeric_limits<int>::max(), 1});
  const bool is_same = at_end && at_end->mark == open->mark;
  return is_same ? open : std::nullopt;
}

bool is_open_quote(std::string_view text, Mark begin) {
  Cursor at(text);
  while (!at.at_end() && at.is_before(begin))
    at.step();
  return !at.at_end() && (at.now() == '"' || at.now() == '\'') && !at.skip_quoted();
}

}  // namespace ddp
