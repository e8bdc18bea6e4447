// ddp-worker: one rank of a job with the built-in models and data sets.
#include "worker/train/program.h"

int main(int argc, char** argv) {
  ddp::worker::run(argc, argv);
}
