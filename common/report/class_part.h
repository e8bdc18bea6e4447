// The results by class, as a part of a run's page: a table by class and the confusion matrix.
#pragma once

#include <string>

#include "common/report/run_record.h"

namespace ddp {

/// HTML; empty: nothing was counted.
std::string class_part(const RecordedClasses& classes);

}  // namespace ddp
