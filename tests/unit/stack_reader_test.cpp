#include "launcher/plan/hang/stack_reader.h"

#include <gmock/gmock.h>

#include <sstream>

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// The lines that were not taken.
std::vector<std::string> feed(StackReader& reader, const std::string& text) {
  std::vector<std::string> rest;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!reader.take(line)) rest.push_back(line);
  }
  return rest;
}

constexpr const char* kFaulthandler = R"(Fatal Python error: Aborted

Thread 0x00007ff7a134e6c0 (most recent call first):
  File "/usr/lib/python3.11/concurrent/futures/thread.py", line 81 in _worker
  File "/usr/lib/python3.11/threading.py", line 995 in _bootstrap

Current thread 0x00007ff7a1710040 (most recent call first):
  File "/w/hang.py", line 6 in step
  File "/w/hang.py", line 9 in <module>

Extension modules: numpy.core, torch._C (total: 2)
)";

TEST(StackReader, ReadsWhatFaulthandlerPrints) {
  StackReader reader;
  EXPECT_THAT(feed(reader, kFaulthandler), IsEmpty());
  const Stacks stacks = reader.result();
  ASSERT_THAT(stacks.threads, SizeIs(2));
  EXPECT_FALSE(stacks.threads[0].is_main);
  EXPECT_TRUE(stacks.threads[1].is_main);
  EXPECT_THAT(stacks.threads[1].frames,
              ElementsAre(Frame{"step", "/w/hang.py", 6}, Frame{"<module>", "/w/hang.py", 9}));
}

TEST(StackReader, TheMainThreadHasTheScriptAtItsBottomWhoeverGotTheSignal) {
  StackReader reader;
  feed(reader,
       "Fatal Python error: Aborted\n\n"
       "Current thread 0x1 (most recent call first):\n"
       "  File \"/usr/lib/python3.11/threading.py\", line 995 in _bootstrap\n\n"
       "Thread 0x2 [MainThread] (most recent call first):\n"
       "  File \"a.py\", line 1 in <module>\n");
  EXPECT_FALSE(reader.result().threads.at(0).is_main);
  EXPECT_TRUE(reader.result().threads.at(1).is_main);
}

TEST(StackReader, TheMainThreadIsThatOfTheScriptAndNotOfTheOneThatWaitsForIt) {
  StackReader reader;
  feed(reader,
       "Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
       "  File \"/usr/lib/python3.11/subprocess.py\", line 1 in wait\n"
       "  File \"launch.py\", line 1 in <module>\n");
  feed(reader, kFaulthandler);
  const Stacks stacks = reader.result();
  EXPECT_FALSE(stacks.threads.at(0).is_main);
  EXPECT_TRUE(stacks.threads.at(2).is_main);
}

TEST(StackReader, ReadsWhatPySpyPrints) {
  StackReader reader;
  EXPECT_THAT(feed(reader,
                   "Process 11264: /usr/bin/python3 hang.py\n"
                   "Python v3.11.2 (/usr/bin/python3.11)\n\n"
                   "Thread 11264 (idle): \"MainThread\"\n"
                   "    step (hang.py:6)\n"
                   "    <module> (hang.py:9)\n"
                   "Thread 11266 (active+gil): \"Pool (1)\"\n"
                   "    Thread.run (threading.py:975)\n"),
              IsEmpty());
  const Stacks stacks = reader.result();
  ASSERT_THAT(stacks.threads, SizeIs(2));
  EXPECT_TRUE(stacks.threads[0].is_main);
  EXPECT_THAT(stacks.threads[0].frames,
              ElementsAre(Frame{"step", "hang.py", 6}, Frame{"<module>", "hang.py", 9}));
  EXPECT_EQ(stacks.threads[1].name, "Pool (1)");
}

TEST(StackReader, ReadsWhatDdpWorkerPrints) {
  StackReader reader;
  EXPECT_THAT(feed(reader,
                   "stack of thread 17 (train) of process 17:\n"
                   "/lib/libc.so.6(clock_nanosleep+0x65)[0x7f00]\n"
                   "./train(_ZN4mine4stepEv+0x12)[0x55d0]\n"
                   "./train(+0x99)[0x55d1]\n"
                   "[0x1234]\n"
                   "stack of thread 18 (pt (gloo)) of process 17:\n"
                   "/lib/libtorch.so(_ZN3ddp6worker3runEv+0x1)[0x7f01]\n"),
              IsEmpty());
  EXPECT_FALSE(reader.is_whole());
  EXPECT_TRUE(reader.take("end of stacks") && reader.is_whole());
  const Stacks stacks = reader.result();
  ASSERT_THAT(stacks.threads, SizeIs(2));
  EXPECT_TRUE(stacks.threads[0].is_main);
  EXPECT_THAT(stacks.threads[0].frames,
              ElementsAre(Frame{"clock_nanosleep", "/lib/libc.so.6", 0},
                          Frame{"mine::step", "./train", 0},
                          Frame{"", "./train", 0},
                          Frame{"", "", 0}));
  EXPECT_EQ(stacks.threads[1].name, "pt (gloo)");
  EXPECT_FALSE(stacks.threads[1].is_main);
}

TEST(StackReader, TheMainThreadOfDdpWorkerMayPrintAfterAnother) {
  StackReader reader;
  feed(reader,
       "stack of thread 18 (pt_gloo) of process 17:\n./train(+0x1)[0x1]\n"
       "stack of thread 17 (train) of process 17:\n./train(main+0x1)[0x1]\nend of stacks\n");
  const Stacks stacks = reader.result();
  EXPECT_FALSE(stacks.threads.at(0).is_main);
  EXPECT_TRUE(stacks.threads.at(1).is_main);
}

TEST(StackReader, LeavesEverythingElse) {
  StackReader reader;
  const std::string words =
      "hello\n\n  File \"a.py\", line 1 in f\nThread 1: x\n    at (b:1)\nstack of\n";
  EXPECT_THAT(feed(reader, words), SizeIs(6));
  EXPECT_TRUE(reader.is_empty());
  // Also between two frames.
  EXPECT_THAT(feed(reader,
                   "Stack (most recent call first):\n  File \"a.py\", line 1 in f\nepoch 3\n"
                   "  File \"a.py\", line 2 in <module>\n"),
              ElementsAre("epoch 3"));
  EXPECT_THAT(reader.result().threads.at(0).frames, SizeIs(2));
}

TEST(StackReader, BoundsWhatItKeepsAndKeepsTheLastThread) {
  StackReader reader;
  std::string text = "Fatal Python error: Aborted\n";
  for (int i = 0; i < 1000; ++i)
    text += "Thread 0x1 (most recent call first):\n";
  for (int i = 0; i < 1000; ++i)
    text += "  File \"" + std::string(1000, 'f') + "\", line 1 in f\n";
  text += "Current thread 0x1 (most recent call first):\n  File \"last.py\", line 1 in <module>\n";
  feed(reader, text);
  const Stacks stacks = reader.result();
  ASSERT_THAT(stacks.threads, SizeIs(StackReader::kMaxThreads));
  EXPECT_EQ(stacks.threads.back().frames.at(0).file, "last.py");
}

TEST(StackReader, NamesAreWithoutArgumentsTemplatesAndReturnTypes) {
  EXPECT_EQ(readable_function("main"), "main");
  EXPECT_EQ(readable_function(""), "");
  EXPECT_EQ(readable_function("_ZN3ddp6worker12TrainingLoop3runEv"),
            "ddp::worker::TrainingLoop::run");
  EXPECT_EQ(readable_function("_ZN12_GLOBAL__N_14hangEv"), "hang");
  EXPECT_EQ(readable_function("_Z3fooIiEvT_"), "foo");              // void foo<int>(int)
  EXPECT_EQ(readable_function("_ZNK3FooclEi"), "Foo::operator()");  // Foo::operator()(int) const
  EXPECT_EQ(readable_function("_ZNSt6vectorIiSaIiEE9push_backEOi"), "std::vector::push_back");
  EXPECT_EQ(readable_function("_ZZ3foovENKUlvE_clEv"), "foo::{lambda}::operator()");
}

}  // namespace
}  // namespace ddp::launcher
