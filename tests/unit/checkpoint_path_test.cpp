#include "worker/save/checkpoint/checkpoint_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A run with checkpoints of the steps 1 to 3, of which 1 is the best.
class CheckpointPath : public testing::Test {
 protected:
  CheckpointPath() : run_(OwnedDir::require(scratch_.path() / "run")) {
    Checkpoints checkpoints(run_, 3, "test");
    for (const std::int64_t step : {1, 2, 3}) {
      checkpoints.save(
          {.head = {.step = step, .result = 1.0 / static_cast<double>(step), .best = 1},
           .model = {{"w", "F32", {2}, std::as_bytes(std::span(weights_))}},
           .optimizer = {},
           .state = {}});
    }
    checkpoints.mark_best();
  }

  [[nodiscard]] std::int64_t step_behind(const std::filesystem::path& path) {
    warnings_.clear();
    return find_checkpoint(path, false, warnings_).head.step;
  }
  [[nodiscard]] std::string refusal(const std::filesystem::path& path) {
    try {
      find_checkpoint(path, false, warnings_);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }
  void damage(const std::string& name) {
    scratch_.write("run/checkpoints/" + name + "/model.safetensors", "nothing");
  }

  Scratch scratch_;
  OwnedDir run_;
  std::filesystem::path there_ = scratch_.path() / "run" / "checkpoints";
  std::array<float, 2> weights_{1, 2};
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointPath, EveryWayToNameOneIsUnderstood) {
  EXPECT_EQ(step_behind(there_ / "step-000002"), 2);
  EXPECT_EQ(step_behind(there_ / "latest"), 3);
  EXPECT_EQ(step_behind(there_ / "best"), 1);
  EXPECT_EQ(step_behind(run_.path()), 3);
  EXPECT_EQ(step_behind(there_), 3);
  EXPECT_EQ(step_behind(there_ / ""), 3);
  EXPECT_EQ(step_behind(run_.path() / "latest"), 3);
  EXPECT_EQ(step_behind(run_.path() / "best"), 1);
  EXPECT_EQ(step_behind(run_.path() / "step-000002"), 2);
  EXPECT_TRUE(is_checkpoint_path(run_.path() / "best"));
  EXPECT_THAT(warnings_, IsEmpty());
  std::filesystem::rename(there_ / "step-000002", scratch_.path() / "moved");
  EXPECT_EQ(step_behind(scratch_.path() / "moved"), 2) << "a manifest makes it one";
}

TEST_F(CheckpointPath, NewestUndamagedCheckpointIsTakenAndNothingIsMoved) {
  damage("step-000003");
  EXPECT_EQ(step_behind(run_.path()), 2);
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("step-000003: model.safetensors: expected "),
                                HasSubstr("Taken is step-000002."))));
  EXPECT_TRUE(std::filesystem::exists(there_ / "step-000003"));
  damage("step-000002");
  damage("step-000001");
  const std::string text = refusal(run_.path());
  for (const char* const name : {"step-000001", "step-000002", "step-000003"})
    EXPECT_THAT(text, HasSubstr(name));
}

TEST_F(CheckpointPath, NamedDamagedCheckpointIsRefused) {
  damage("step-000003");
  EXPECT_THAT(refusal(there_ / "latest"),
              HasSubstr("step-000003: model.safetensors: expected 112 bytes, found 7"));
  EXPECT_THAT(refusal(there_ / "step-000003"), HasSubstr("model.safetensors"));
}

TEST_F(CheckpointPath, PathWithoutACheckpointIsRefusedWithAHint) {
  EXPECT_THAT(refusal(scratch_.path() / "none"), HasSubstr("there is no such file or directory"));
  EXPECT_THAT(refusal(scratch_.path()), HasSubstr("holds no checkpoint"));
  std::filesystem::remove(there_ / "best");
  EXPECT_THAT(
      refusal(run_.path() / "best"),
      AllOf(HasSubstr("run/checkpoints/best: there is no such file"), HasSubstr("as RUN/best.")));
  scratch_.write("run/checkpoints/best", "step-000001\n");
  EXPECT_THAT(refusal(there_ / "step-000007"), HasSubstr("no such file"));
  scratch_.write("some.txt", "hello");
  EXPECT_THAT(refusal(scratch_.path() / "some.txt"), HasSubstr("neither a directory nor a file"));
  scratch_.write("run/checkpoints/latest", "../step-000001\n");
  EXPECT_THAT(refusal(there_ / "latest"), HasSubstr("neither a directory nor a file"));
  EXPECT_FALSE(is_checkpoint_path(scratch_.path() / "some.txt"));
  EXPECT_TRUE(is_checkpoint_path(there_ / "best"));
  EXPECT_TRUE(is_checkpoint_path(there_));
}

}  // namespace
}  // namespace ddp::worker
