// The ranks of a run, as a part of its page: step times and data wait over epochs, and a row each.
#pragma once

#include <string>

#include "common/report/run_record.h"

namespace ddp {

/// HTML; empty: nothing is known of the ranks.
std::string rank_part(const RunRecord& run);

}  // namespace ddp
