// The secret of a job of several nodes: from --token-file, DDP_TOKEN, or the job file's
// launch.token_file, in this order. Never from argv, which everyone on the node can read.
#pragma once

#include <string>

#include "common/job/job_values.h"
#include "common/node/environment.h"
#include "launcher/plan/command_line/options.h"
#include "launcher/plan/secret.h"

namespace ddp::launcher {

/// Takes DDP_TOKEN, and removes it from `environment` and from /proc/PID/environ.
Secret take_token(Environment& environment);

/// The token without blanks at its ends; empty: none. `variable` comes from take_token(). Errors:
/// UsageError when the file is missing or others can read it, or when the token has blanks in it,
/// is shorter than kShortestToken or longer than kLongestToken.
Secret find_token(const Options& options, const JobValues& job, const Secret& variable);

/// The warning for a job of several nodes without a token.
std::string describe_missing_token();

inline constexpr std::size_t kShortestToken = 32;  // characters; 256 random bits in hex take 64
inline constexpr std::size_t kLongestToken = 4096;

}  // namespace ddp::launcher
