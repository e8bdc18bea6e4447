// How the classes of a run went, as a part of its page: a table by class and the confusion matrix.
#pragma once

#include <string>

#include "common/report/run_record.h"

namespace ddp {

/// HTML; empty where nothing was counted.
std::string class_part(const RecordedClasses& classes);

}  // namespace ddp
