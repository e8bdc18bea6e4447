#include "worker/plan/manual.h"

#include <array>

#include "common/cli/roff.h"
#include "common/exit_code.h"
#include "worker/plan/options.h"

namespace ddp::worker {
namespace {

using roff::bold;
using roff::exit_codes_text;
using roff::item;
using roff::job_keys_text;
using roff::plain;
using roff::section;
using roff::slanted;
using roff::title;

constexpr std::array kOwnCodes{exit_code::kUsage,
                               exit_code::kNoRestart,
                               exit_code::kDiverged,
                               exit_code::kLostPeer,
                               exit_code::kTimeout,
                               exit_code::kInternal,
                               exit_code::kTerminated};

std::string flag_items() {
  std::string text;
  for (const CompletionFlag& flag : completion_program().flags) {
    std::string term = flag.letter != '\0' ? bold(std::string("-") + flag.letter) + ", " : "";
    term += bold("--" + flag.name);
    if (!flag.placeholder.empty()) term += " " + slanted(flag.placeholder);
    text += item(term, plain(flag.help));
  }
  return text;
}

}  // namespace

std::string manual_page() {
  std::string text = title("ddp-worker", "train one rank of a job, or work on its checkpoints") +
                     section("SYNOPSIS");
  std::string verbs;
  for (const VerbHelp& verb : describe_verbs()) {
    text += (verbs.empty() ? "" : ".br\n") + bold("ddp-worker") + " " + plain(verb.usage) + "\n";
    verbs += item(bold(verb.usage), plain(verb.what));
  }
  text += section("DESCRIPTION") + verbs;
  text += section("FLAGS") + plain("Of a training. Those of a verb: ") +
          bold("ddp-worker eval --help") + ".\n" + flag_items();
  text += section("JOB FILE") + job_keys_text();
  text += section("EXIT STATUS") + item("0", "finished") + exit_codes_text(kOwnCodes);
  return text + section("SEE ALSO") + bold("ddp-launch") + "(1)\n";
}

}  // namespace ddp::worker
