#include "worker/fetch/fetch_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kKnown{"mnist", "cifar10"};

std::string problems_of(const std::vector<std::string>& arguments) {
  try {
    parse_fetch_options(arguments, kKnown);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(FetchOptions, FlagsComeAnywhereAndInBothForms) {
  const FetchOptions wanted{.set = "mnist",
                            .directory = "data",
                            .from = "http://mirror/a/",
                            .stall_limit = std::chrono::minutes(2)};
  EXPECT_EQ(parse_fetch_options({"mnist", "data", "--from=http://mirror/a", "--stall-limit=2min"},
                                kKnown),
            wanted);
  EXPECT_EQ(parse_fetch_options(
                {"--from", "http://mirror/a/", "mnist", "--stall-limit", "120s", "data"}, kKnown),
            wanted);
  EXPECT_EQ(parse_fetch_options({"mnist", "data"}, kKnown).stall_limit, std::chrono::seconds(30));
  EXPECT_EQ(parse_fetch_options({"mnist", "data"}, kKnown).min_rate, 1000);
  EXPECT_EQ(parse_fetch_options({"mnist", "data", "--min-rate", "2KiB"}, kKnown).min_rate, 2048);
  EXPECT_EQ(parse_fetch_options({"mnist", "data", "--min-rate=0"}, kKnown).min_rate, 0);
}

TEST(FetchOptions, HelpNeedsNothingElse) {
  EXPECT_TRUE(parse_fetch_options({"--help"}, kKnown).help);
  EXPECT_TRUE(parse_fetch_options({"-h", "mnst"}, kKnown).help);
}

TEST(FetchOptions, AllProblemsAreSaidAtOnce) {
  EXPECT_THAT(problems_of({"mnst", "data", "--from=x", "--stall-limit=0", "--fast", "--from"}),
              AllOf(HasSubstr("mnst: unknown data set, did you mean \"mnist\"? There are: mnist, "
                              "cifar10."),
                    HasSubstr("--from x: not an http:// or https:// address."),
                    HasSubstr("--stall-limit 0: not a duration of 1s or more"),
                    HasSubstr("--fast: unknown flag"),
                    HasSubstr("--from: needs a value.")));
  EXPECT_THAT(problems_of({"mnist", "data", "--min-rate=fast"}),
              HasSubstr("--min-rate fast: not a number of bytes a second, as 1kB; 0: any"));
  EXPECT_THAT(problems_of({"mnist"}), HasSubstr("ddp-worker fetch NAME DIR"));
  EXPECT_THAT(problems_of({"mnist", "a", "b"}), HasSubstr("ddp-worker fetch NAME DIR"));
}

}  // namespace
}  // namespace ddp::worker
