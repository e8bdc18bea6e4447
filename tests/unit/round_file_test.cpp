#include "worker/save/records/round_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "common/report/run_reader.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(RoundFile, WrittenRoundsAreReadForThePage) {
  const Scratch scratch;
  scratch.write("result.json", R"({"state":"finished"})");
  const OwnedDir directory = OwnedDir::require(scratch.path());
  const RoundRecord facts{.ranks = {"a \"quoted\" host", "b"},
                          .versions = "1",
                          .directory = "d",
                          .commit = "c",
                          .monitored = "accuracy",
                          .is_higher_better = true};
  RoundFile file(directory);
  file.begin(facts, 0);
  file.write_ranks(0, 10, {{"step_ms", {1.5, std::numeric_limits<double>::quiet_NaN()}}});
  file.write_save(10);
  const RunRecord run = read_run(directory);
  ASSERT_EQ(run.recorded_rounds.size(), 1U);
  EXPECT_EQ(run.recorded_rounds[0].ranks, facts.ranks);
  EXPECT_EQ(run.recorded_rounds[0].commit, "c");
  EXPECT_TRUE(run.recorded_rounds[0].is_higher_better);
  EXPECT_GT(run.recorded_rounds[0].time, 1.7e9);
  ASSERT_EQ(run.ranks.size(), 1U);
  EXPECT_EQ(run.ranks[0].numbers.at("step_ms").at(0), 1.5);
  EXPECT_THAT(run.saves, ElementsAre(10));
}

TEST(RoundFile, ALineThatWasCutOffEndsBeforeTheNextRound) {
  const Scratch scratch;
  scratch.write("rounds.jsonl", "{\"kind\":\"ra");
  RoundFile file(OwnedDir::require(scratch.path()));
  file.begin({}, 3);
  EXPECT_THAT(scratch.read("rounds.jsonl"), HasSubstr("{\"kind\":\"ra\n{\"kind\":\"round\""));
  RoundFile next(OwnedDir::require(scratch.path()));
  next.begin({}, 4);
  EXPECT_EQ(scratch.read("rounds.jsonl").find("\n\n"), std::string::npos);
  EXPECT_THAT(scratch.read("rounds.jsonl"), EndsWith("\n"));
}

TEST(RoundFile, AFileThatCannotBeWrittenIsOneWarning) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "rounds.jsonl");
  RoundFile file(OwnedDir::require(scratch.path()));
  ::testing::internal::CaptureStderr();
  file.begin({}, 0);
  file.write_save(1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace ddp::worker
