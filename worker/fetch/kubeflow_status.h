// `ddp-fetch --kubeflow-status`: reads the lines that programs of metrics.command get, and tells
// Kubeflow the progress, as its proposal 2779 says: KUBEFLOW_TRAINER_SERVER_URL is the
// address, _CA_CERT and _TOKEN name files. Wraps libcurl. It is the same program as the one that
// gets data, because that is the one with libcurl.
#pragma once

#include "common/node/environment.h"

namespace ddp::worker {

/// Posts a few seconds apart, and once more after the last line. What cannot be posted is said once
/// on stderr, and is no failure. Blocks: until stdin ends. Returns the exit code.
int tell_kubeflow(const Environment& environment);

}  // namespace ddp::worker
