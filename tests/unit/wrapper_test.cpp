#include "launcher/plan/start/wrapper.h"

#include <gmock/gmock.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Wrapper wrapper_of(std::string_view text) {
  return std::get<Wrapper>(read_wrapper(text));
}

std::string problem_of(std::string_view text) {
  return std::get<std::string>(read_wrapper(text));
}

TEST(Wrapper, NamesRanksAndACommand) {
  const Wrapper wrapper = wrapper_of("0,2-3:gdb -ex 'set confirm off' --args");
  EXPECT_THAT(wrapper.ranks, ElementsAre(RankRange{0, 0}, RankRange{2, 3}));
  EXPECT_THAT(wrapper.words, ElementsAre("gdb", "-ex", "set confirm off", "--args"));
  EXPECT_TRUE(wrapper_of("all:env A=b:c").ranks.empty());
  const std::vector<Wrapper> wrappers{wrapper};
  EXPECT_TRUE(is_wrapped(wrappers, 0));
  EXPECT_FALSE(is_wrapped(wrappers, 1));
  EXPECT_TRUE(is_wrapped(wrappers, 3));
}

TEST(Wrapper, AMistakeInAWrapperHasASentence) {
  for (const char* const text :
       {"gdb", "strace -f", "x:gdb", ":gdb", "0,:gdb", "3-1:gdb", "-1:gdb", "all,1:gdb"})
    EXPECT_THAT(problem_of(text), HasSubstr("write RANKS:COMMAND, the ranks as 0, 0,2-3 or all."));
  EXPECT_EQ(problem_of("0: "), "\"0: \": the command is empty.");
  EXPECT_THAT(problem_of("0:''"), HasSubstr("the command is empty"));
  EXPECT_THAT(problem_of("0:gdb -ex 'run"), HasSubstr("a quote is not closed"));
}

TEST(Wrapper, PercentLettersBecomeTheRanksNumbers) {
  Placement placement;
  placement.rank = 9;
  placement.local_rank = 1;
  placement.node_rank = 2;
  EXPECT_EQ(fill_wrapper("%r-%l-%n-%h-100%%r", placement, "gpu07"), "9-1-2-gpu07-100%r");
  EXPECT_EQ(fill_wrapper("report.%p.%q{HOME}%", placement, "gpu07"), "report.%p.%q{HOME}%");
}

TEST(Wrapper, TheFirstIsTheOutermost) {
  const std::vector<Wrapper> wrappers{wrapper_of("all:/bin/nice -n 5"),
                                      wrapper_of("1:/bin/strace -o s.%r")};
  Placement placement;
  placement.rank = 1;
  Command command{"/bin/train", {"train", "--lr", "1"}};
  wrap(command, wrappers, placement, "h");
  EXPECT_EQ(command.executable, "/bin/nice");
  EXPECT_THAT(
      command.arguments,
      ElementsAre("/bin/nice", "-n", "5", "/bin/strace", "-o", "s.1", "/bin/train", "--lr", "1"));
  placement.rank = 2;
  command = {"/bin/train", {"train"}};
  wrap(command, wrappers, placement, "h");
  EXPECT_THAT(command.arguments, ElementsAre("/bin/nice", "-n", "5", "/bin/train"));
}

SessionProcess process(pid_t pid, pid_t parent, const std::string& command) {
  SessionProcess one;
  one.pid = pid;
  one.parent = parent;
  one.session = 10;
  one.command = command;
  return one;
}

TEST(Wrapper, TheProgramIsBelowItsWrappers) {
  const std::string line = program_line({"/bin/python3", {"python3", "-u", "t.py", ""}});
  EXPECT_EQ(line, "python3 -u t.py");
  // Two wrappers, the program, two forks of it, and a monitor of a wrapper.
  const std::vector<SessionProcess> all{
      process(14, 13, "/bin/python3 -u t.py"),
      process(15, 14, "/bin/python3 -u t.py"),
      process(11, 10, "strace -f /bin/python3 -u t.py"),
      process(12, 10, "monitor"),
      process(13, 11, "/bin/python3 -u t.py"),
      process(10, 1, "perf record strace -f /bin/python3 -u t.py"),
  };
  EXPECT_EQ(find_wrapped(all, line, 10), 13);
  EXPECT_THAT(tree_of(all, 13), ElementsAre(13, 14, 15));
}

TEST(Wrapper, TheProgramIsFoundBehindAShellAndAsAScript) {
  const std::string line = program_line({"/w/train.sh", {"train.sh"}});
  EXPECT_EQ(find_wrapped(std::vector{process(10, 1, "gdb --args /w/train.sh"),
                                     process(11, 10, "/bin/sh -c exec"),
                                     process(12, 11, "/bin/sh /w/train.sh")},
                         line,
                         10),
            12);
}

TEST(Wrapper, TheLeaderIsTheProgramWhereNoneIsBelow) {
  const std::string line = program_line({"/bin/train", {"train"}});
  EXPECT_EQ(
      find_wrapped(std::vector{process(10, 1, "/bin/train"), process(11, 10, "helper")}, line, 10),
      10);
  EXPECT_EQ(
      find_wrapped(
          std::vector{process(10, 1, "strace /bin/train"), process(11, 10, "title")}, line, 10),
      10);
  EXPECT_EQ(find_wrapped({}, line, 10), 10);
}

TEST(Wrapper, AShellsCodeIsASignal) {
  EXPECT_EQ(seen_through_wrapper({139, 0, false}), (ExitStatus{0, SIGSEGV, false}));
  for (const int code : {0, 1, 128, 143, 200, 255})
    EXPECT_EQ(seen_through_wrapper({code, 0, false}), (ExitStatus{code, 0, false}));
  EXPECT_EQ(seen_through_wrapper({0, SIGKILL, false}), (ExitStatus{0, SIGKILL, false}));
}

}  // namespace
}  // namespace ddp::launcher
