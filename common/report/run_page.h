// The page of one run: records in, HTML out.
#pragma once

#include <string>

#include "common/report/run_record.h"

namespace ddp {

/// One self-contained page. Its epochs count from 1, as in all texts for people.
std::string run_page(const RunRecord& run);

}  // namespace ddp
