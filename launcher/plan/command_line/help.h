// The page of --help, and the parts that manual and completions share with it. Choices and defaults
// come from the job keys that the flags set.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/verbs.h"

namespace ddp::launcher {

inline constexpr std::string_view kPurpose =
    "Starts the workers of a distributed job, watches them, and ends all of them when one fails.";
inline constexpr std::string_view kWhereFlagsGo =
    "Flags come before a program, and before or after a job file. Both spellings "
    "(--nproc-per-node, --nproc_per_node) and unique prefixes work. Flags beat overrides, "
    "overrides beat PET_* variables, those beat the job file.";

std::span<const Usage> usages();
std::span<const Usage> examples();

/// Our own exit codes, as the page lists them.
std::span<const int> own_exit_codes();

/// The placeholder after the flag: "N|auto|cpu|gpu"; empty for a switch.
std::string placeholder_of(const Flag& flag);

/// The flag's effect, its default, and the variable that sets it.
std::string describe(const Flag& flag);

/// The page of --help, in 100 columns.
std::string help_text();

}  // namespace ddp::launcher
