#include "launcher/plan/command_line/manual.h"

#include "common/program/roff.h"
#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/help.h"

namespace ddp::launcher {
namespace {

using roff::bold;
using roff::exit_codes_text;
using roff::item;
using roff::job_keys_text;
using roff::plain;
using roff::section;
using roff::slanted;
using roff::subsection;
using roff::title;

std::string flag_items() {
  std::string text;
  for (const Flag& flag : flags()) {
    if (!flag.group.empty()) text += subsection(flag.group);
    std::string term = flag.letter != '\0' ? bold(std::string("-") + flag.letter) + ", " : "";
    term += bold("--" + std::string(flag.name));
    const std::string value = placeholder_of(flag);
    if (!value.empty()) term += (flag.value == FlagValue::optional ? "" : " ") + slanted(value);
    text += item(term, plain(describe(flag)));
  }
  return text;
}

}  // namespace

std::string manual_page() {
  std::string text =
      title("ddp-launch", "start, watch and end the workers of a distributed training") +
      section("SYNOPSIS");
  for (const Usage& usage : usages())
    text += (&usage == usages().data() ? "" : ".br\n") + bold("ddp-launch") + " " +
            plain(usage.words) + "\n";
  text += section("DESCRIPTION") + plain(kPurpose) + "\n.PP\n" + plain(kWhereFlagsGo) + "\n";
  text += section("FLAGS") + flag_items();
  text += section("JOB FILE") + job_keys_text();
  text += section("EXIT STATUS") + item("0", "all workers ended well") +
          exit_codes_text(own_exit_codes()) +
          item("others", plain("the code of the worker that failed first"));
  text += section("EXAMPLES");
  for (const Usage& example : examples())
    text += item(bold("ddp-launch " + std::string(example.words)), plain(example.help));
  return text + section("SEE ALSO") + bold("ddp-worker") + "(1)\n";
}

}  // namespace ddp::launcher
