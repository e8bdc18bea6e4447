#include "tests/support/programs.h"

const char* const DDP_LAUNCH = DDP_LAUNCH_PATH;
const char* const DDP_DYNAMIC_LAUNCH = DDP_DYNAMIC_LAUNCH_PATH;
const char* const DDP_FAKE_WORKER = DDP_FAKE_WORKER_PATH;
