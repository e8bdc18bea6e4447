// What is saved when ranks differ: rank 0 of three, the others are faked.
#include "worker/train/checkpointer.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <fstream>
#include <memory>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/dist/replica_check.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

/// Rank 0 of three; the others hold weights of that digest.
class FakeGroup : public Group {
 public:
  std::int64_t others = 0;
  int gathers = 0;

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world_size() const override { return 3; }
  void all_reduce(at::Tensor&) override {}
  std::unique_ptr<PendingSum> start_all_reduce(at::Tensor) override { return {}; }
  void broadcast(at::Tensor&, int) override {}
  at::Tensor all_gather(const at::Tensor& tensor) override {
    ++gathers;
    const at::Tensor other = at::full({1}, others, at::kLong);
    return at::stack({tensor, other, other});
  }
  void require_same(const std::string&, const std::string&) override {}
  void close() override {}
  [[nodiscard]] c10d::Store* store() const override { return nullptr; }
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group() const override { return {}; }
};

class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerTest() {
    job_.batch.global_batch = 1;
    job_.checkpoint.keep = 2;
    job_.ddp.check_replicas_every = 500;
    DdpRequest request;
    request.parameters = {{"weight", weight_}};
    replica_.emplace(request, *alone_);
  }

  Checkpointer make_checkpointer() {
    return Checkpointer({.job = job_,
                         .group = group_,
                         .replica = *replica_,
                         .shared = {{{"weight", weight_}, {"statistics", at::ones({3})}}, {}},
                         .page = page_,
                         .run_dir = &run_,
                         .run_id = {},
                         .parameters = {"weight"}});
  }

  [[nodiscard]] bool has_saved(const std::string& name) const {
    return std::filesystem::exists(scratch_.path() / "checkpoints" / name);
  }

  Scratch scratch_;
  const ddp::OwnedDir run_ = ddp::OwnedDir::require(scratch_.path());
  Job job_;
  ProgressPage page_;
  FakeGroup group_;
  const std::unique_ptr<Group> alone_ = single_process_group();
  at::Tensor weight_ = torch::randn({1000}).requires_grad_();
  std::optional<Ddp> replica_;
};

TEST_F(CheckpointerTest, CheckpointIsSavedWhenAllRanksHoldTheSame) {
  group_.others = digest_of({{"weight", weight_}});
  Checkpointer checkpointer = make_checkpointer();
  const SaveOutcome outcome = checkpointer.finish({.step = 7, .epoch_sums = {}, .best_state = {}});
  EXPECT_EQ(outcome, (SaveOutcome{.count = 1, .step = 7}));
  EXPECT_FALSE(checkpointer.exit_code_of(outcome));
  EXPECT_TRUE(has_saved("step-000007"));
}

TEST_F(CheckpointerTest, WeightsThatOtherRanksDoNotHoldAreNoCheckpoint) {
  group_.others = digest_of({{"weight", weight_}});
  Checkpointer checkpointer = make_checkpointer();
  (void)checkpointer.finish({.step = 7, .epoch_sums = {}, .best_state = {}});
  group_.others ^= 1;
  checkpointer.save({.step = 8, .epoch_sums = {}, .best_state = {}});
  const SaveOutcome outcome = checkpointer.finish({.step = 9, .epoch_sums = {}, .best_state = {}});
  EXPECT_EQ(outcome.count, 1);
  EXPECT_EQ(outcome.diverged_step, 8) << "the first of them";
  EXPECT_EQ(checkpointer.exit_code_of(outcome), exit_code::kDiverged);
  EXPECT_TRUE(has_saved("step-000007"));
  EXPECT_FALSE(has_saved("step-000008"));
  EXPECT_FALSE(has_saved("step-000009"));
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");  // in pages: all, resident (proc(5))
  std::int64_t all = 0;
  std::int64_t resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGE_SIZE);
}

TEST_F(CheckpointerTest, MemoryForCopiesIsThereFromTheStartWhereSavesArePlanned) {
  constexpr std::int64_t kBytes = 128 << 20;
  weight_ = at::zeros({kBytes / 4}).requires_grad_();
  replica_.reset();
  DdpRequest request;
  request.parameters = {{"weight", weight_}};
  replica_.emplace(request, *alone_);
  job_.ddp.check_replicas_every = 0;
  const auto taken = [&](std::int64_t every) {
    job_.checkpoint.every = every;
    const std::int64_t before = resident_bytes();
    Checkpointer checkpointer = make_checkpointer();
    const std::int64_t bytes = resident_bytes() - before;
    EXPECT_EQ(checkpointer.finish({.step = 7 + every, .epoch_sums = {}, .best_state = {}}).count,
              1);
    return bytes;
  };
  EXPECT_LT(taken(0), kBytes / 2);
  EXPECT_GE(taken(1), kBytes);
}

TEST_F(CheckpointerTest, RanksAreNotComparedWhereTheJobSaysSo) {
  job_.ddp.check_replicas_every = 0;
  Checkpointer checkpointer = make_checkpointer();
  EXPECT_EQ(checkpointer.finish({.step = 7, .epoch_sums = {}, .best_state = {}}).count, 1);
  EXPECT_EQ(group_.gathers, 0);
}

}  // namespace
}  // namespace ddp::worker
