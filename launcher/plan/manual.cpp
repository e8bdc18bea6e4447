#include "launcher/plan/manual.h"

#include "common/exit_code.h"
#include "common/job_keys.h"
#include "launcher/plan/flags.h"
#include "launcher/plan/help.h"

namespace ddp::launcher {
namespace {

/// Text that roff prints as it is: a hyphen is a minus, which can be copied; no line begins with a
/// request.
std::string plain(std::string_view text) {
  std::string result;
  if (text.starts_with('.') || text.starts_with('\'')) result += "\\&";
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '~')
      result += "\\(ti";
    else if (c == '^')
      result += "\\(ha";
    else if (c == '\'')
      result += "\\(aq";
    else if (c == '`')
      result += "\\(ga";
    else
      result += c;
  }
  return result;
}

std::string bold(std::string_view text) {
  return "\\fB" + plain(text) + "\\fR";
}

/// A term, and what it means.
std::string item(const std::string& term, const std::string& text) {
  return ".TP\n" + term + "\n" + text + "\n";
}

std::string section(const std::string& name) {
  return ".SH " + name + "\n";
}
std::string subsection(std::string_view name) {
  return ".SS \"" + std::string(name) + "\"\n";
}

std::string flag_items() {
  std::string text;
  std::string_view group;
  for (const Flag& flag : flags()) {
    if (flag.group != group) text += subsection(flag.group);
    group = flag.group;
    std::string term = flag.letter != '\0' ? bold(std::string("-") + flag.letter) + ", " : "";
    term += bold("--" + std::string(flag.name));
    const std::string value = placeholder_of(flag);
    if (!value.empty())
      term += (flag.value == FlagValue::optional ? "" : " ") + ("\\fI" + plain(value) + "\\fR");
    text += item(term, plain(describe(flag)));
  }
  return text;
}

std::string key_items() {
  std::string text;
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

std::string exit_items() {
  std::string text = item("0", "all workers ended well");
  for (const int code : own_exit_codes())
    text += item(std::to_string(code), plain(exit_code::describe(code)));
  text += item("128+n", "stopped by signal n");
  return text + item("others", plain("the code of the worker that failed first"));
}

}  // namespace

std::string manual_page() {
  std::string text =
      ".TH DDP\\-LAUNCH 1 \"\" \"ddp " DDP_VERSION "\" \"User Commands\"\n" + section("NAME") +
      "ddp\\-launch \\- start, watch and end the workers of a distributed training\n" +
      section("SYNOPSIS");
  for (const Usage& usage : usages())
    text += (&usage == usages().data() ? "" : ".br\n") + bold("ddp-launch") + " " +
            plain(usage.words) + "\n";
  text += section("DESCRIPTION") + plain(kPurpose) + "\n.PP\n" + plain(kWhereFlagsGo) + "\n";
  text += section("FLAGS") + flag_items();
  text += section("\"JOB FILE\"") +
          plain(
              "A YAML file with these keys; a dot is a section. Behind it KEY=VALUE sets a key for "
              "one run. What follows in parentheses is the default.") +
          "\n" + key_items();
  text += section("\"EXIT STATUS\"") + exit_items();
  text += section("EXAMPLES");
  for (const Usage& example : examples())
    text += item(bold("ddp-launch " + std::string(example.words)), plain(example.help));
  return text + section("\"SEE ALSO\"") + bold("ddp-worker --help") + "\n";
}

}  // namespace ddp::launcher
