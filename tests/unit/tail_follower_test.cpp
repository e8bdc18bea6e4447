#include "launcher/plan/status/tail_follower.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

/// One worker with a stdout of so many lines, of which the last ones are known.
JobAnswer answer(std::uint64_t lines,
                 std::vector<std::string> tail,
                 const std::string& pid = "17") {
  WorkerAnswer worker;
  worker.rank = "3";
  worker.pid = pid;
  worker.output.lines = lines;
  worker.output.tail = std::move(tail);
  JobAnswer job;
  job.workers.push_back(std::move(worker));
  return job;
}

TEST(TailFollower, EachLineComesOnce) {
  TailFollower follower;
  EXPECT_EQ(follower.take(answer(9, {"h", "i"}), ""), "[3 stdout] h\n[3 stdout] i\n");
  EXPECT_EQ(follower.take(answer(9, {"h", "i"}), ""), "");
  EXPECT_EQ(follower.take(answer(10, {"i", "j"}), ""), "[3 stdout] j\n");
  EXPECT_EQ(follower.take(answer(12, {"k", "l"}), ""), "[3 stdout] k\n[3 stdout] l\n");
}

TEST(TailFollower, MissedLinesAreCounted) {
  TailFollower follower;
  (void)follower.take(answer(1, {"a"}), "");
  EXPECT_EQ(follower.take(answer(6, {"e", "f"}), ""),
            "[3 stdout] ... 3 lines were missed\n[3 stdout] e\n[3 stdout] f\n");
}

TEST(TailFollower, AnotherProcessCountsAnew) {
  TailFollower follower;
  (void)follower.take(answer(9, {"i"}), "");
  EXPECT_EQ(follower.take(answer(1, {"a"}, "18"), ""), "[3 stdout] a\n");
}

TEST(TailFollower, OtherRanksAndStreamsWithAFileAreLeftOut) {
  TailFollower follower;
  JobAnswer job = answer(1, {"a"});
  EXPECT_EQ(follower.take(job, "2"), "");
  EXPECT_EQ(follower.take(job, "3"), "[3 stdout] a\n");
  job = answer(2, {"b"});
  job.workers[0].output.file = "/logs/rank-3.out";
  EXPECT_EQ(follower.take(job, "3"), "");
}

}  // namespace
}  // namespace ddp::launcher
