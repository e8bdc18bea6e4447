#include "launcher/plan/hosts/host_list.h"

#include <gmock/gmock.h>

#include "common/error.h"

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string host_problems(const std::string& list) {
  try {
    (void)parse_hosts(list);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string problems_of_file(const std::string& text) {
  try {
    (void)parse_host_file(text, "nodes.txt");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(HostList, TheOrderIsThatOfTheNodes) {
  EXPECT_THAT(parse_hosts("a,b:4, user@c.example ,10.0.0.1:2"),
              ElementsAre(Host{"a", "a", {}},
                          Host{"b", "b", 4},
                          Host{"user@c.example", "c.example", {}},
                          Host{"10.0.0.1", "10.0.0.1", 2}));
}

TEST(HostList, AnIpv6AddressStandsInBrackets) {
  EXPECT_THAT(parse_hosts("[::1],me@[fe80::1%eth0]:8"),
              ElementsAre(Host{"::1", "::1", {}}, Host{"me@fe80::1%eth0", "fe80::1%eth0", 8}));
  for (const char* const text : {"::1", "fe80::1:4", "[::1", "[a]", "[::1]4", "[::1]:", "[::1%]"})
    EXPECT_NE(host_problems(text), "") << text;
}

TEST(HostList, NamesThatReadAsOptionsOrShellWordsAreRefused) {
  for (const char* const text : {"-oProxyCommand=x",
                                 "a -v",
                                 "a;b",
                                 "$(x)",
                                 "a`b`",
                                 "-l@a",
                                 "a@-b",
                                 "@a",
                                 "a@b@c",
                                 "a/b",
                                 "[fe80::1%-x]",
                                 "a\nb"})
    EXPECT_NE(host_problems(text), "") << text;
  EXPECT_NE(host_problems(std::string("a\0b", 3)), "");
  EXPECT_NE(host_problems(std::string("[::1\0]", 6)), "");
  EXPECT_NE(host_problems(std::string(254, 'a')), "");
}

TEST(HostList, ANumberOfWorkersIsOneOrMore) {
  for (const char* const text :
       {"a:", "a:0", "a:-1", "a:+1", "a:x", "a:1x", "a:100001", "a:99999999999"})
    EXPECT_THAT(host_problems(text), HasSubstr("number of workers is 1 to 100000")) << text;
}

TEST(HostList, AHostIsNamedOnce) {
  EXPECT_THAT(host_problems("a,b,A:2"), HasSubstr("--hosts A:2: named twice"));
  EXPECT_NE(host_problems("a,user@a"), "");
  EXPECT_THAT(problems_of_file("a\nb\na\n"),
              HasSubstr("nodes.txt:3: a: named twice (first in nodes.txt:1)"));
}

TEST(HostList, EmptyListIsRefused) {
  EXPECT_THAT(host_problems(""), HasSubstr("names no host"));
  EXPECT_THAT(host_problems("a,,b"), HasSubstr("nothing between two commas"));
  EXPECT_THAT(problems_of_file("# all gone\n\n"), HasSubstr("nodes.txt: names no host"));
}

TEST(HostList, AFileHasOneHostPerLine) {
  const std::string text =
      "# our machines\n"
      "a\n"
      "  b:4   # the big one\r\n"
      "\n"
      "c\tslots=2\n"
      "[fe80::1] slots=3";
  EXPECT_THAT(
      parse_host_file(text, "nodes.txt"),
      ElementsAre(
          Host{"a", "a", {}}, Host{"b", "b", 4}, Host{"c", "c", 2}, Host{"fe80::1", "fe80::1", 3}));
}

TEST(HostList, EveryWrongLineOfAFileIsNamed) {
  const std::string problems =
      problems_of_file("a slots=\nb:2 slots=2\nc max_slots=4\nd slots=2 x\n-x\n");
  for (const char* const place : {":1: ", ":2: ", ":3: ", ":4: ", ":5: "})
    EXPECT_THAT(problems, HasSubstr("nodes.txt" + std::string(place)));
}

TEST(HostList, FirstWrongLinesAreNamedAndTheOthersCounted) {
  std::string text;
  for (std::size_t i = 0; i < kShownProblems + 7; ++i)
    text += "-x\n";
  const std::string problems = problems_of_file(text);
  const std::string last = ":" + std::to_string(kShownProblems);
  const std::string next = ":" + std::to_string(kShownProblems + 1);
  EXPECT_THAT(problems, HasSubstr("nodes.txt" + last + ": "));
  EXPECT_THAT(problems, Not(HasSubstr("nodes.txt" + next + ": ")));
  EXPECT_THAT(problems, EndsWith("\nand 7 more like these"));
}

TEST(HostList, NumberOfHostsIsLimited) {
  std::string text;
  for (std::size_t i = 0; i <= kMaxHosts; ++i)
    text += "n" + std::to_string(i) + "\n";
  EXPECT_THAT(problems_of_file(text), HasSubstr("nodes.txt:10001: n10000: more than 10000 hosts"));
}

}  // namespace
}  // namespace ddp::launcher
