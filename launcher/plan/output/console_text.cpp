#include "launcher/plan/output/console_text.h"

#include <algorithm>

#include "common/text/split.h"
#include "common/text/utf8.h"

namespace ddp::launcher {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::string_view kReset = "\x1b[0m";

constexpr bool is_plain(unsigned char c) {
  return (c >= 0x20 && c < 0x7f) || c == '\t';
}

bool is_between(char c, char low, char high) {
  return c >= low && c <= high;
}

/// Length of the control sequence (ECMA-48, 5.4) at the head of `text`, which starts with ESC [.
std::size_t control_sequence(std::string_view text) {
  std::size_t end = 2;
  while (end < text.size() && is_between(text[end], '\x20', '\x3f'))
    ++end;
  const bool has_final = end < text.size() && is_between(text[end], '\x40', '\x7e');
  return end + (has_final ? 1 : 0);
}

/// Length of the string (a title, a link) that begins with ESC and one of "]PX^_": up to BEL or ESC
/// \, or to the end of the line.
std::size_t control_string(std::string_view text) {
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] == '\a') return i + 1;
    if (text[i] == kEscape && i + 1 < text.size() && text[i + 1] == '\\') return i + 2;
  }
  return text.size();
}

bool is_color(std::string_view sequence) {
  return sequence.size() > 2 && sequence[1] == '[' && sequence.back() == 'm' &&
         sequence.find_first_not_of("0123456789;:", 2) == sequence.size() - 1;
}

std::size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 1;
  if (text[1] == '[') return control_sequence(text);
  if (std::string_view("]PX^_").find(text[1]) != std::string_view::npos)
    return control_string(text);
  std::size_t end = 1;  // ESC, intermediate characters, a final one
  while (end < text.size() && is_between(text[end], '\x20', '\x2f'))
    ++end;
  return std::min(text.size(), end + 1);
}

}  // namespace

void append_clean(std::string& text, std::string_view line) {
  while (line.ends_with('\r'))
    line.remove_suffix(1);
  if (const std::size_t back = line.rfind('\r'); back != std::string_view::npos)
    line.remove_prefix(back + 1);
  bool is_colored = false;
  while (!line.empty()) {
    const auto odd =
        std::ranges::find_if(line, [](char c) { return !is_plain(static_cast<unsigned char>(c)); });
    const auto plain = static_cast<std::size_t>(odd - line.begin());
    text.append(line.substr(0, plain));
    line.remove_prefix(plain);
    if (line.empty()) break;
    std::size_t taken = 1;
    if (line[0] == kEscape) {
      taken = escape_length(line);
      const std::string_view sequence = line.substr(0, taken);
      if (is_color(sequence)) {
        text.append(sequence);
        is_colored = sequence != kReset && sequence != "\x1b[m";
      }
    } else if (static_cast<unsigned char>(line[0]) < 0x80) {
      text += '?';
    } else if (const std::size_t length = utf8_length(line); length == 0) {
      text.append(kReplacement);
    } else {
      taken = length;
      const std::string_view sequence = line.substr(0, length);
      text.append(is_control(sequence) ? "?" : sequence);
    }
    line.remove_prefix(taken);
  }
  if (is_colored) text.append(kReset);
}

std::string first_columns(std::string_view line, std::size_t columns) {
  constexpr std::size_t kTabStops = 8;
  std::size_t end = 0;
  std::size_t used = 0;
  bool is_colored = false;
  while (end < line.size()) {
    const std::string_view rest = line.substr(end);
    const bool is_color = rest[0] == kEscape;
    Character next = is_color ? Character{escape_length(rest), 0} : first_character(rest);
    if (rest[0] == '\t') next.columns = kTabStops - used % kTabStops;
    if (used + next.columns > columns) break;
    used += next.columns;
    end += next.bytes;
    is_colored = is_colored || is_color;
  }
  std::string text(line.substr(0, end));
  if (is_colored && end < line.size()) text.append(kReset);
  return text;
}

std::string clean_lines(std::string_view text) {
  std::string cleaned;
  for (const std::string_view line : split_lines(text)) {
    append_clean(cleaned, line);
    cleaned += '\n';
  }
  if (!text.ends_with('\n') && !cleaned.empty()) cleaned.pop_back();
  return cleaned;
}

std::string plain_line(std::string_view text, std::size_t most) {
  const bool is_cut = text.size() > most;
  while (is_cut && most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80)
    --most;  // between two characters
  std::string flat(text.substr(0, most));
  std::ranges::replace(flat, '\n', ' ');
  std::erase(flat, '\r');
  std::string colored;
  append_clean(colored, flat);
  std::string plain;
  for (std::string_view rest = colored; !rest.empty();) {
    const std::size_t taken = rest[0] == kEscape ? escape_length(rest) : 1;
    if (taken == 1) plain += rest[0] == '\t' ? ' ' : rest[0];
    rest.remove_prefix(taken);
  }
  return is_cut ? plain + "..." : plain;
}

std::string with_returns(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\n') shown += '\r';
    shown += c;
  }
  return shown;
}

}  // namespace ddp::launcher
