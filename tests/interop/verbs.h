// A tool of the interop tests: its first argument is a verb, the others are the verb's.
#pragma once

#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"

namespace ddp::test {

using Arguments = std::vector<std::string>;
using Verbs = std::map<std::string, std::function<void(const Arguments&)>>;

/// Runs the verb that the command line names. Returns the exit code: 2 without a known verb, that
/// of the error when the verb throws.
inline int run_verb(const char* tool, const Verbs& verbs, int argc, char** argv) try {
  const Arguments arguments(argv + 1, argv + argc);
  if (arguments.empty() || !verbs.contains(arguments[0])) {
    std::cerr << tool << ": the verb is one of:";
    for (const auto& [name, action] : verbs)
      std::cerr << " " << name;
    std::cerr << "\n";
    return exit_code::kUsage;
  }
  verbs.at(arguments[0])(Arguments(arguments.begin() + 1, arguments.end()));
  return exit_code::kOk;
} catch (const std::exception& error) {
  return print_error(tool, error);
}

}  // namespace ddp::test
