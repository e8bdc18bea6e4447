#include "launcher/plan/command_line/completion.h"

#include "common/program/shell_completion.h"
#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/help.h"
#include "launcher/plan/command_line/verbs.h"

namespace ddp::launcher {
namespace {

using Value = CompletedFlag::Value;

CompletedFlag completed(const Flag& flag) {
  CompletedFlag result{.name = std::string(flag.name), .letter = flag.letter};
  result.help = describe(flag);
  result.value = flag.value == FlagValue::none       ? Value::none
                 : flag.value == FlagValue::optional ? Value::optional
                                                     : Value::required;
  result.placeholder = placeholder_of(flag);
  result.takes_key = flag.name == "explain";
  return result;
}

/// doctor takes the flags of a job; other verbs have their own flags and --help.
CompletedVerb completed(const Verb& verb) {
  CompletedVerb result{.names = {std::string(verb.name)}};
  if (!verb.asks_agents && verb.flags.empty()) return result;
  for (const VerbFlag& flag : verb.flags) {
    result.flags.push_back({.name = std::string(flag.name.substr(2)),
                            .letter = flag.letter,
                            .help = std::string(flag.help),
                            .value = flag.placeholder.empty() ? Value::none : Value::required,
                            .placeholder = std::string(flag.placeholder)});
  }
  result.flags.push_back({.name = "help", .help = "show its help"});
  return result;
}

}  // namespace

std::string completion(const std::string& shell) {
  CompletedProgram program{.name = "ddp-launch"};
  for (const Flag& flag : flags())
    program.flags.push_back(completed(flag));
  for (const Verb& verb : verbs())
    program.verbs.push_back(completed(verb));
  return completion_script(program, shell);
}

}  // namespace ddp::launcher
