// A tool of the interop tests: its first argument is a verb, the others are the verb's.
// each VERB ARGUMENT... [/ VERB ARGUMENT...]...: several in turn, as starting is slow.
#pragma once

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"

namespace ddp::test {

using Arguments = std::vector<std::string>;
using Verbs = std::map<std::string, std::function<void(const Arguments&)>>;

/// `arguments`: verbs with theirs, a "/" between them. Errors: those of a verb, std::out_of_range
/// of one that is not known.
inline void run_each(const Verbs& verbs, const Arguments& arguments) {
  for (auto first = arguments.begin(); first != arguments.end();) {
    const auto last = std::find(first, arguments.end(), "/");
    const auto& verb = verbs.at(*first);
    verb(Arguments(first + 1, last));
    first = last == arguments.end() ? last : last + 1;
  }
}

/// Runs the verb that the command line names. Returns the exit code: 2 without a known verb, that
/// of the error when the verb throws.
inline int run_verb(const char* tool, const Verbs& verbs, int argc, char** argv) try {
  const Arguments arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "each") {
    run_each(verbs, Arguments(arguments.begin() + 1, arguments.end()));
    return exit_code::kOk;
  }
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
