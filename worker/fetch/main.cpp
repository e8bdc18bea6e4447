// ddp-fetch: what `ddp-worker fetch` becomes. A program of its own, so that those who train do not
// load libcurl and the thirty libraries behind it.
#include "worker/fetch/fetch.h"

int main(int argc, char** argv) {
  return ddp::worker::run_fetch(argc, argv, ddp::worker::published_sets());
}
