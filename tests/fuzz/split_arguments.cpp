// Any command line (one argument per line): problems, or options in a form that splits into itself.
#include <string>
#include <vector>

#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/split_arguments.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> arguments{{}};
  for (const char character : ddp::fuzz::to_string(data, size)) {
    if (character == '\n') {
      arguments.emplace_back();
    } else if (character != '\0') {
      arguments.back() += character;
    }
  }
  const auto split = ddp::launcher::split_arguments(arguments, ddp::launcher::flags());
  ddp::fuzz::require(split.rest.size() <= arguments.size(),
                     "the rest is a part of the command line");
  if (!split.problems.empty()) return 0;
  const auto again = ddp::launcher::split_arguments(split.options, ddp::launcher::flags());
  ddp::fuzz::require(again.options == split.options, "full names split into themselves");
  ddp::fuzz::require(again.rest.empty() && again.problems.empty(), "options alone leave no rest");
  return 0;
}
