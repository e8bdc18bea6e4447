#include "launcher/plan/output/bar_line.h"

#include "common/text/contains.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kCursorUp = "\x1b[A";

/// Where the newest state begins, after its carriage return; npos: there is none. Removes carriage
/// returns at the end of `line`, where some programs write them.
std::size_t begin_of_state(std::string_view& line) {
  while (line.ends_with('\r'))
    line.remove_suffix(1);
  const std::size_t back = line.rfind('\r');
  return back == std::string_view::npos ? back : back + 1;
}

/// The last character that is not part of a number: all states of a bar end alike, "it/s]" or
/// "MB/s".
char sign_of(std::string_view state) {
  const std::size_t last = state.find_last_not_of(" 0123456789.");
  return last == std::string_view::npos ? '\0' : state[last];
}

}  // namespace

std::string bar_state(std::string_view pending) {
  if (pending.find('\r') == std::string_view::npos) return "";
  std::string state;
  append_clean(state, pending);
  return state.find_first_not_of(' ') == std::string::npos ? "" : state;
}

std::size_t old_states(std::string_view pending) {
  const std::size_t newest = begin_of_state(pending);
  if (newest == std::string_view::npos || newest < 2) return 0;
  const std::size_t before = pending.rfind('\r', newest - 2);
  return before == std::string_view::npos ? 0 : before;
}

BarLine bar_line(std::string_view line) {
  const std::size_t up = line.rfind(kCursorUp);
  if (up != std::string_view::npos) line.remove_prefix(up + kCursorUp.size());
  if (up != std::string_view::npos && line.find_first_not_of("\r ") == std::string_view::npos)
    return BarLine::below;
  const std::size_t newest = begin_of_state(line);
  if (newest == std::string_view::npos) return BarLine::text;
  std::string_view before = line.substr(0, newest - 1);
  const std::size_t back = begin_of_state(before);
  if (back != std::string_view::npos) before.remove_prefix(back);
  if (up != std::string_view::npos && before.empty()) return BarLine::end;
  const char sign = sign_of(before);
  return sign != '\0' && sign == sign_of(line.substr(newest)) ? BarLine::end : BarLine::text;
}

bool is_of_nested_bars(std::string_view line) {
  return contains(line, kCursorUp) && bar_line(line) != BarLine::text;
}

}  // namespace ddp::launcher
