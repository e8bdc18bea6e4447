// The page of one run: records in, HTML out.
#pragma once

#include <string>

#include "common/report/run_record.h"

namespace ddp {

/// One self-contained page. Epochs count from 1 in it, as wherever people read.
std::string run_page(const RunRecord& run);

}  // namespace ddp
