// What the tables of flags, verbs and job keys say to people and shells: the page of --help, the
// manual page and the completions.
#pragma once

#include <string>

#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/verbs.h"

namespace ddp::launcher {

/// The placeholder after the flag: "N|auto|cpu|gpu"; empty for a switch.
std::string placeholder_of(const Flag& flag);

/// The flag's effect, its default, and the variable that sets it.
std::string describe(const Flag& flag);

/// The page of --help, in 100 columns.
std::string help_text();

/// The manual page in man(7) format: flags, the keys of job files, exit codes.
std::string manual_page();

/// The script by which a shell completes our words. `shell`: bash, zsh or fish. Errors: UsageError
/// for another one.
std::string completion(const std::string& shell);

}  // namespace ddp::launcher
