// An assertion that fails in a kernel (label gpu). The GPU's context is lost then: every later call
// fails as well, so what frees memory while the first error unwinds may throw, and std::terminate
// would hide what happened.
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "common/exit_code.h"
#include "common/node/environment.h"
#include "scratch.h"
#include "worker/program.h"

namespace ddp::worker {
namespace {

constexpr const char* kFolder = "DDP_TEST_FOLDER";

/// As a program of a user's own, in that folder.
[[noreturn]] void train_with_labels_beyond_the_classes() {
  std::filesystem::current_path(find_variable(read_environment(), kFolder).value_or("/"));
  Registry registry = built_in();
  registry.losses["beyond"] = [](const LossJob&) -> Criterion {
    return [](const at::Tensor& scores, const at::Tensor& labels) {
      return Loss{.total = at::cross_entropy_loss(scores, labels + 1000)};
    };
  };
  std::string program = "ddp-worker";
  std::string job = "job.yaml";
  char* arguments[] = {program.data(), job.data(), nullptr};
  run(2, arguments, registry);
}

TEST(Gpu, ADeviceSideAssertEndsTheWorkerByItsCodeAndIsSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no fork of a process that has a GPU
  // The child of the other style comes by here, too, and uses its parent's folder.
  std::optional<Scratch> scratch;
  if (!find_variable(read_environment(), kFolder)) {
    scratch.emplace();
    scratch->write("job.yaml",
                   "name: job\n"
                   "device: cuda\n"
                   "data: {name: digits, batch_per_rank: 16, train_size: 160, test_size: 16}\n"
                   "loss: {name: beyond}\n");
    ::setenv(kFolder, scratch->path().c_str(), /*overwrite=*/1);
  }
  EXPECT_EXIT(train_with_labels_beyond_the_classes(),
              testing::ExitedWithCode(exit_code::kInternal),
              "ddp-worker: .*device-side assert");
  ::unsetenv(kFolder);
}

}  // namespace
}  // namespace ddp::worker
