#include "common/cli/roff.h"

#include <algorithm>
#include <cctype>

#include "common/exit_code.h"
#include "common/job/job_keys.h"
#include "common/version.h"

namespace ddp::roff {

std::string plain(std::string_view text) {
  std::string result;
  if (text.starts_with('.') || text.starts_with('\'')) result += "\\&";
  constexpr std::string_view kSpecial = "\\-~^'`";
  constexpr std::string_view kNames[] = {"\\e", "\\-", "\\(ti", "\\(ha", "\\(aq", "\\(ga"};
  for (const char& c : text) {
    const std::size_t at = kSpecial.find(c);
    result += at == std::string_view::npos ? std::string_view(&c, 1) : kNames[at];
  }
  return result;
}

std::string bold(std::string_view text) {
  return "\\fB" + plain(text) + "\\fR";
}

std::string item(const std::string& term, const std::string& text) {
  return ".TP\n" + term + "\n" + text + "\n";
}

std::string slanted(std::string_view text) {
  return "\\fI" + plain(text) + "\\fR";
}

std::string title(std::string_view program, std::string_view what) {
  std::string name = plain(program);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  return ".TH " + name + " 1 \"\" \"ddp " DDP_VERSION "\" \"User Commands\"\n" + section("NAME") +
         plain(program) + " \\- " + plain(what) + "\n";
}

std::string section(std::string_view name) {
  const bool has_blanks = name.find(' ') != std::string_view::npos;
  const std::string quote = has_blanks ? "\"" : "";
  return ".SH " + quote + std::string(name) + quote + "\n";
}

std::string subsection(std::string_view name) {
  return ".SS \"" + std::string(name) + "\"\n";
}

std::string job_keys_text() {
  std::string text =
      plain(
          "A YAML file with these keys; a dot is a section. Behind it KEY=VALUE sets a key for one "
          "run. What follows in parentheses is the default.") +
      "\n";
  std::string_view part;
  for (const JobKey& key : job_keys()) {
    const std::size_t dot = key.path.find('.');
    const std::string_view now =
        dot == std::string_view::npos ? "The run" : key.path.substr(0, dot);
    if (now != part) text += subsection(now);
    part = now;
    std::string help = plain(key.help);
    for (const std::string_view word : key.choices)
      help += (word == key.choices.front() ? (key.is_open ? ". Known: " : ". One of ") : ", ") +
              plain(word);
    text += item(bold(key.path) + " (" + plain(key.default_value) + ")", help + ".");
  }
  return text;
}

std::string exit_codes_text(std::span<const int> codes) {
  std::string text;
  for (const int code : codes)
    text += item(std::to_string(code), plain(exit_code::describe(code)));
  return text + item("128+n", "ended by signal n");
}

}  // namespace ddp::roff
