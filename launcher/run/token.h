// The secret of a job of several nodes: from --token-file, from DDP_TOKEN, or from the job file's
// launch.token_file, in this order. Never from argv, which everybody on the node can read.
#pragma once

#include <string>

#include "common/job/job_values.h"
#include "common/node/identity.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/secret.h"

namespace ddp::launcher {

/// DDP_TOKEN, taken out of `environment`, and out of what the kernel shows of this process.
Secret take_token(Environment& environment);

/// Without blanks at its ends; empty: there is none. `variable` is that of take_token().
/// Errors: UsageError when the file is not there or others can read it, when the token has blanks
/// in it, or is shorter than kShortestToken or longer than kLongestToken.
Secret find_token(const Options& options, const JobValues& job, const Secret& variable);

/// One line for a job of several nodes without a token.
std::string describe_missing_token();

inline constexpr std::size_t kShortestToken = 32;  // characters; 256 random bits in hex take 64
inline constexpr std::size_t kLongestToken = 4096;

}  // namespace ddp::launcher
