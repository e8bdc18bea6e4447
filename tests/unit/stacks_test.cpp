#include "launcher/plan/hang/stacks.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kTorch = "/v/lib/python3.11/site-packages/torch/";
const std::string kPython = "/usr/lib/python3.11/";

ThreadStack main_thread(std::vector<Frame> frames) {
  return {"", true, std::move(frames)};
}
ThreadStack other_thread(std::vector<Frame> frames, const std::string& name = "") {
  return {name, false, std::move(frames)};
}
Stacks only(std::vector<Frame> frames) {
  return {{main_thread(std::move(frames))}, 0};
}
Stacks sleeps() {
  return only({{"step", "/w/train.py", 21}, {"<module>", "/w/train.py", 30}});
}
Stacks in_backward() {
  return only({{"_engine_run_backward", kTorch + "autograd/graph.py", 823},
               {"backward", kTorch + "_tensor.py", 500},
               {"<module>", "/w/train.py", 25}});
}
Stacks in_barrier(int line) {
  return only({{"barrier", kTorch + "distributed/distributed_c10d.py", 4500},
               {"wrapper", kTorch + "distributed/c10d_logger.py", 80},
               {"<module>", "/w/train.py", line}});
}

TEST(Stacks, ThreadsThatWaitForWorkAreIdle) {
  EXPECT_TRUE(is_idle(other_thread({{"_worker", kPython + "concurrent/futures/thread.py", 81},
                                    {"_bootstrap", kPython + "threading.py", 995}})));
  EXPECT_TRUE(is_idle(other_thread({{"wait", kPython + "threading.py", 331},
                                    {"run", kTorch + "../tqdm/_monitor.py", 60},
                                    {"_bootstrap", kPython + "threading.py", 995}})));
  EXPECT_TRUE(is_idle(other_thread({})));
  EXPECT_TRUE(
      is_idle(other_thread({{"", "/lib/libgomp-a34b3233.so.1", 0}, {"", "/lib/libc.so.6", 0}})));
  EXPECT_TRUE(
      is_idle(other_thread({{"epoll_wait", "/lib/libc.so.6", 0},
                            {"gloo::transport::tcp::Loop::run", "/l/libtorch_cpu.so", 0}})));
  EXPECT_TRUE(is_idle(other_thread({{"ddp::worker::SharedSums::serve", "./ddp-worker", 0}})));
  // A user's thread that waits may be what is wrong; so may one that computes.
  EXPECT_FALSE(is_idle(other_thread({{"wait", kPython + "threading.py", 331},
                                     {"feed", "/w/train.py", 3},
                                     {"_bootstrap", kPython + "threading.py", 995}})));
  EXPECT_FALSE(is_idle(other_thread({{"read", kPython + "socket.py", 3}})));
  EXPECT_FALSE(is_idle(other_thread({{"", "/lib/libc.so.6", 0}, {"mine::load", "./train", 0}})));
  // The main thread is never left out.
  EXPECT_FALSE(is_idle(main_thread({{"wait", kPython + "threading.py", 331}})));
}

TEST(Stacks, AreShortenedFromTheEndWithTheMainThreadFirst) {
  Stacks stacks;
  stacks.threads = {other_thread({{"f", "/w/a.py", 1}}), other_thread({}), sleeps().threads[0]};
  const Stacks whole = shortened(stacks, 1000);
  EXPECT_EQ(whole.idle, 1);
  ASSERT_THAT(whole.threads, SizeIs(2));
  EXPECT_TRUE(whole.threads[0].is_main);
  EXPECT_THAT(shortened(stacks, 60).threads, SizeIs(1));
  EXPECT_THAT(shortened(stacks, 60).threads.at(0).frames, SizeIs(1));
  EXPECT_THAT(shortened(stacks, 0).threads, SizeIs(0));
}

TEST(Stacks, TheInnermostFrameOfUserCodeIsWhereItStands) {
  EXPECT_EQ(where_it_stands(sleeps()), "train.py:21 in step");
  EXPECT_EQ(where_it_stands(in_backward()), "train.py:25 in <module>");
  EXPECT_EQ(where_it_stands(only({{"wait", kPython + "threading.py", 331}})),
            "threading.py:331 in wait");
  EXPECT_EQ(where_it_stands(only({{"clock_nanosleep", "/lib/libc.so.6", 0},
                                  {"at::_ops::conv2d::call", "/l/libtorch_cpu.so", 0},
                                  {"mine::forward", "./train", 0}})),
            "mine::forward (train)");
  EXPECT_EQ(where_it_stands(Stacks()), "");
}

TEST(Stacks, LinesNameThreadsAndFramesShortly) {
  Stacks stacks = in_backward();
  stacks.threads.push_back(other_thread({{"load", "/w/data.py", 3}}, "loader"));
  stacks.idle = 2;
  EXPECT_THAT(to_lines(stacks),
              ElementsAre("main thread",
                          "  torch/autograd/graph.py:823 in _engine_run_backward",
                          "  torch/_tensor.py:500 in backward",
                          "  /w/train.py:25 in <module>",
                          "another thread loader",
                          "  /w/data.py:3 in load",
                          "2 idle threads are left out"));
}

TEST(Stacks, AnImportIsShownWithoutTheImporter) {
  const Stacks stacks = only({{"_find_and_load", "<frozen importlib._bootstrap>", 1176},
                              {"<module>", kTorch + "__init__.py", 5},
                              {"_find_and_load", "<frozen importlib._bootstrap>", 1176},
                              {"<module>", "/w/train.py", 1}});
  EXPECT_THAT(
      to_lines(stacks),
      ElementsAre(
          "main thread", "  torch/__init__.py:5 in <module>", "  /w/train.py:1 in <module>"));
  EXPECT_EQ(where_it_stands(stacks), "train.py:1 in <module>");
}

TEST(Stacks, InnermostCallsOfLibtorchAreShown) {
  std::vector<Frame> frames{{"clock_nanosleep", "/lib/libc.so.6", 0}};
  for (const std::string name : {"c10d::a", "c10d::b", "c10d::c", "c10d::d"})
    frames.push_back({name, "/l/libtorch_cpu.so", 0});
  frames.push_back({"ddp::worker::TrainingLoop::run", "./ddp-worker", 0});
  frames.push_back({"__libc_start_main", "/lib/libc.so.6", 0});
  EXPECT_THAT(to_lines(only(frames)),
              ElementsAre("main thread",
                          "  clock_nanosleep (libc.so.6)",
                          "  c10d::a (libtorch_cpu.so)",
                          "  ... 3 of libraries",
                          "  ddp::worker::TrainingLoop::run (ddp-worker)"));
  frames.front().function.clear();
  EXPECT_EQ(to_lines(only(frames)).at(1), "  c10d::a (libtorch_cpu.so)");
}

TEST(Stacks, EqualOnesAreOneGroup) {
  const std::vector<StackGroup> groups =
      group_equal({{0, in_backward()}, {1, sleeps()}, {2, in_backward()}, {3, in_backward()}});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_THAT(groups[0].ranks, ElementsAre(0, 2, 3));
  EXPECT_THAT(groups[1].ranks, ElementsAre(1));
}

TEST(Stacks, EachPlaceOfTheOtherRanksIsShownOnce) {
  EXPECT_THAT(describe_others({{0, in_backward()}, {1, sleeps()}, {2, in_backward()}}, 1),
              ElementsAre("ranks 0,2:",
                          "  main thread",
                          "    torch/autograd/graph.py:823 in _engine_run_backward",
                          "    torch/_tensor.py:500 in backward",
                          "    /w/train.py:25 in <module>"));
  EXPECT_THAT(describe_others({{0, sleeps()}, {1, sleeps()}, {2, Stacks()}}, 0),
              ElementsAre("rank 1: as rank 0"));
  StacksByRank many;
  for (int rank = 0; rank < 12; ++rank)
    many[rank] = in_barrier(rank + 1);
  EXPECT_EQ(describe_others(many, 0).back(), "ranks 9-11: in other places");
}

TEST(Culprit, RankOutsideOfTheCollectiveIsTheCulprit) {
  const auto odd = find_culprit({{0, in_backward()}, {1, sleeps()}});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->rank, 1);
  EXPECT_THAT(odd->why, HasSubstr("train.py:21 in step"));
  EXPECT_EQ(find_culprit({{0, sleeps()}, {1, in_barrier(3)}, {2, in_backward()}})->rank, 0);
  // Who waits by a lock waits where he has called it.
  Stacks locked = in_barrier(3);
  locked.threads[0].frames.insert(locked.threads[0].frames.begin(),
                                  {"wait", kPython + "threading.py", 331});
  Stacks user = sleeps();
  user.threads[0].frames.insert(user.threads[0].frames.begin(),
                                {"wait", kPython + "threading.py", 331});
  EXPECT_EQ(find_culprit({{0, locked}, {1, user}})->rank, 1);
}

TEST(Culprit, StandsInAnotherCollectiveThanMost) {
  EXPECT_EQ(find_culprit({{0, in_backward()}, {1, in_barrier(7)}, {2, in_backward()}})->rank, 1);
  EXPECT_EQ(find_culprit({{0, in_barrier(3)}, {1, in_barrier(3)}, {2, in_barrier(9)}})->rank, 2);
}

TEST(Culprit, RankThatSkippedAnEarlierCallIsTheCulprit) {
  EXPECT_EQ(find_culprit({{0, in_backward()}, {1, in_barrier(7)}})->rank, 0);
  EXPECT_EQ(find_culprit({{0, in_barrier(7)}, {1, in_backward()}})->rank, 1);
  EXPECT_FALSE(find_culprit({{0, in_barrier(7)}, {1, in_barrier(9)}}));
}

TEST(Culprit, EqualStacksGiveNoCulprit) {
  EXPECT_FALSE(find_culprit({}));
  EXPECT_FALSE(find_culprit({{0, sleeps()}}));
  EXPECT_FALSE(find_culprit({{0, sleeps()}, {1, sleeps()}}));
  EXPECT_FALSE(find_culprit({{0, in_barrier(3)}, {1, in_barrier(3)}}));
  EXPECT_FALSE(find_culprit({{0, in_backward()}, {1, Stacks()}}));
}

TEST(Culprit, OutlierReplacesOnlyAGuessOfTheWatchdog) {
  const StacksByRank stacks{{0, in_backward()}, {1, sleeps()}};
  Finding hang{true, 0, "neither ran nor printed for 5 s", false};
  EXPECT_EQ(blame_outlier(hang, stacks), hang);
  hang.is_guess = true;
  EXPECT_EQ(blame_outlier(hang, {}), hang);
  const Finding found = blame_outlier(hang, stacks);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.text,
            "stands in train.py:21 in step, while others wait in a collective; rank 0 neither ran "
            "nor printed for 5 s");
}

TEST(Culprit, CppStacksGiveACulprit) {
  const Stacks waits = only({{"", "/lib/libc.so.6", 0},
                             {"std::condition_variable::wait", "/lib/libstdc++.so.6", 0},
                             {"c10d::ProcessGroupGloo::wait", "/l/libtorch_cpu.so", 0},
                             {"main", "./train", 0}});
  const Stacks hangs = only({{"", "/lib/libc.so.6", 0}, {"mine::forward", "./train", 0}});
  EXPECT_EQ(find_culprit({{0, waits}, {1, hangs}})->rank, 1);
}

TEST(Culprit, SharedMemorySumsCountAsCollectives) {
  const Stacks waits = only({{"syscall", "/lib/libc.so.6", 0},
                             {"ddp::worker::SharedSums::wait_for", "./mine", 0},
                             {"mine::train", "./mine", 0}});
  const Stacks computes = only({{"pause", "/lib/libc.so.6", 0}, {"mine::load", "./mine", 0}});
  const auto odd = find_culprit({{0, waits}, {1, computes}});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->rank, 1);
  EXPECT_EQ(where_it_stands(waits), "mine::train (mine)");
}

TEST(Stacks, AThreadWhoseCallsHaveNoNamesSaysSo) {
  Stacks stacks;
  stacks.threads.push_back(ThreadStack{"", true, {}});
  EXPECT_EQ(to_lines(stacks),
            (std::vector<std::string>{"main thread", "  in calls without names"}));
}

}  // namespace
}  // namespace ddp::launcher
