// The part of the table of job keys that training reads; job_keys.h has the whole table.
#pragma once

#include <vector>

#include "common/job/job_keys.h"

namespace ddp {

/// From data.* to metrics.*, in the order of the reference page.
std::vector<JobKey> training_keys();

}  // namespace ddp
