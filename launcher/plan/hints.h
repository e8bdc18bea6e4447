// What a program's last words mean for how it was started. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

/// A script that wants its local rank as an argument in another way than it was given.
/// `local_rank_flag` is the spelling that the launcher appended, empty for none. Nothing when the
/// lines say nothing of the kind.
std::optional<std::string> hint_for(const std::vector<std::string>& last_lines,
                                    const std::string& local_rank_flag);

}  // namespace ddp::launcher
