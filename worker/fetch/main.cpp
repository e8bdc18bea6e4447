// ddp-fetch, which `ddp-worker fetch` becomes. It is a program of its own, so that a training does
// not load libcurl and the thirty libraries behind it.
#include "worker/fetch/fetch.h"

int main(int argc, char** argv) {
  return ddp::worker::run_fetch(argc, argv, ddp::worker::published_sets());
}
