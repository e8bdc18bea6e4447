// The parts of a job's web page, each as HTML that replaces the previous one in the browser. Pure.
// Promises: text from workers, nodes or the user is escaped; a part has a bounded length, however
// many ranks there are.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "launcher/plan/web/job_history.h"
#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

inline constexpr std::array<std::string_view, 4> kPagePartIds{"head", "charts", "ranks", "rounds"};
using PageParts = std::array<std::string, kPagePartIds.size()>;

inline constexpr std::size_t kMaxRankRows = 256;
inline constexpr std::size_t kMaxNodeRows = 64;

PageParts page_parts(const JobView& job, const JobHistory& history);

}  // namespace ddp::launcher
