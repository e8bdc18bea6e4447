// ddp-fetch, which `ddp-worker fetch` becomes, and which rank 0 starts to tell Kubeflow the
// progress. It is a program of its own, so that a training does not load libcurl and the thirty
// libraries behind it.
#include <string_view>

#include "common/node/environment.h"
#include "worker/fetch/fetch.h"
#include "worker/fetch/kubeflow_status.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--kubeflow-status")
    return ddp::worker::tell_kubeflow(ddp::read_environment());
  return ddp::worker::run_fetch(argc, argv, ddp::worker::published_sets());
}
