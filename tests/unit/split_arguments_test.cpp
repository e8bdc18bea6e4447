#include "launcher/plan/command_line/split_arguments.h"
#include "common/job/job_keys.h"

#include <gmock/gmock.h>

#include "launcher/plan/command_line/help.h"

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

SplitArguments split(const Words& words) {
  return split_arguments(words, flags());
}

TEST(SplitArguments, TheFirstPositionalEndsTheOptions) {
  const SplitArguments result = split({"--nnodes", "1", "prog", "-h", "-m", "--nnodes", "3"});
  EXPECT_THAT(result.options, ElementsAre("--nnodes=1"));
  EXPECT_THAT(result.rest, ElementsAre("prog", "-h", "-m", "--nnodes", "3"));
  EXPECT_THAT(result.problems, IsEmpty());
}

TEST(SplitArguments, AllSpellingsMeanTheSameFlag) {
  for (const char* const word :
       {"--nproc-per-node=2", "--nproc_per_node=2", "--nproc_per-node=2", "--nproc-per_node=2"}) {
    EXPECT_THAT(split({word, "p"}).options, ElementsAre("--nproc-per-node=2")) << word;
  }
  EXPECT_THAT(split({"--nproc_per_node", "2", "p"}).options, ElementsAre("--nproc-per-node=2"));
}

TEST(SplitArguments, AValueMayHoldAnEqualsSign) {
  EXPECT_THAT(split({"--rdzv-conf", "a=b,c=d", "p"}).options, ElementsAre("--rdzv-conf=a=b,c=d"));
  EXPECT_THAT(split({"--rdzv-conf=a=b", "p"}).options, ElementsAre("--rdzv-conf=a=b"));
}

TEST(SplitArguments, UniquePrefixesAreCompletedWithANote) {
  const SplitArguments result = split({"--nn", "1", "--standalon", "--no-p", "--rdzv-e", "h", "p"});
  EXPECT_THAT(result.options,
              ElementsAre("--nnodes=1", "--standalone", "--no-python", "--rdzv-endpoint=h"));
  EXPECT_EQ(result.notes.size(), 4U);
  EXPECT_THAT(result.notes[0], HasSubstr("--nn is read as --nnodes"));
}

TEST(SplitArguments, AmbiguousPrefixesAreRefusedWithTheList) {
  const SplitArguments result = split({"--master", "x", "p"});
  ASSERT_EQ(result.problems.size(), 1U);
  EXPECT_THAT(result.problems[0], HasSubstr("--master-addr, --master-port"));
}

TEST(SplitArguments, ShortFlagsComeAloneOrTogether) {
  for (const Words& words : {Words{"-r", "3", "p"}, Words{"-r3", "p"}, Words{"-r=3", "p"}}) {
    EXPECT_THAT(split(words).options, ElementsAre("--redirects=3"));
  }
  EXPECT_THAT(split({"-mr3", "p"}).options, ElementsAre("--module", "--redirects=3"));
  EXPECT_EQ(split({"-mpkg"}).problems.size(), 1U);
}

TEST(SplitArguments, TheLastOfARepeatedFlagWins) {
  EXPECT_THAT(split({"--nnodes=1", "--role=a", "--nnodes=2", "p"}).options,
              ElementsAre("--role=a", "--nnodes=2"));
  EXPECT_THAT(split({"-v", "-v", "p"}).options, ElementsAre("--verbose"));
}

TEST(SplitArguments, OneDoubleDashBeforeAndOneAfterTheProgramAreDropped) {
  EXPECT_THAT(split({"--", "-p"}).rest, ElementsAre("-p"));
  EXPECT_THAT(split({"p", "--", "a", "--", "b"}).rest, ElementsAre("p", "a", "--", "b"));
}

TEST(SplitArguments, FlagsMayComeBehindAJobFileToo) {
  const SplitArguments result =
      split({"--nnodes", "1", "a/job.yaml", "--dry-run", "k=v", "--grace", "5s", "-v", "l=w"});
  EXPECT_THAT(result.options, ElementsAre("--nnodes=1", "--dry-run", "--grace=5s", "--verbose"));
  EXPECT_THAT(result.rest, ElementsAre("a/job.yaml", "k=v", "l=w"));
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(split({"job.yml", "--nope"}).problems, ElementsAre(HasSubstr("no such flag. ")));
  EXPECT_THAT(split({"--no-pyton"}).problems, ElementsAre(HasSubstr("did you mean --no-python? ")));
  EXPECT_THAT(split({"--nprocs=2"}).problems,
              ElementsAre(HasSubstr("did you mean --nproc-per-node? ")));
  EXPECT_THAT(split({"bin/ddp-worker", "job.yaml", "--dry-run"}).options, ElementsAre("--dry-run"));
}

TEST(SplitArguments, BehindAProgramOrTwoDashesNothingIsAFlag) {
  EXPECT_THAT(split({"train.py", "job.yaml", "--dry-run"}).options, IsEmpty());
  EXPECT_THAT(split({"ddp-worker", "--dry-run", "job.yaml"}).options, IsEmpty());
  const SplitArguments result = split({"job.yaml", "--", "--dry-run"});
  EXPECT_THAT(result.options, IsEmpty());
  EXPECT_THAT(result.rest, ElementsAre("job.yaml", "--dry-run"));
  EXPECT_THAT(split({"job.yaml", "--", "a=1", "--", "b=2"}).rest,
              ElementsAre("job.yaml", "a=1", "--", "b=2"));
  EXPECT_THAT(split({"--", "job.yaml", "--", "a=1"}).rest, ElementsAre("job.yaml", "a=1"));
}

TEST(SplitArguments, ASwitchTakesNoValue) {
  EXPECT_THAT(split({"--standalone=1", "p"}).problems, ElementsAre(HasSubstr("takes no value")));
}

TEST(SplitArguments, AMissingValueIsAProblem) {
  EXPECT_THAT(split({"--nnodes"}).problems, ElementsAre(HasSubstr("--nnodes needs a value")));
  EXPECT_THAT(split({"--nnodes", "--role", "x", "p"}).problems,
              ElementsAre(HasSubstr("--nnodes needs a value")));
}

TEST(SplitArguments, ANegativeNumberIsAValue) {
  EXPECT_THAT(split({"--max-restarts", "-1", "p"}).options, ElementsAre("--max-restarts=-1"));
}

TEST(SplitArguments, ProblemsAreCollected) {
  EXPECT_EQ(split({"--one", "--two", "-z", "p"}).problems.size(), 3U);
}

TEST(SplitArguments, NothingIsFine) {
  EXPECT_EQ(split({}), SplitArguments());
}

TEST(Flags, NamesAndLettersAreUniqueAndKeysExist) {
  std::vector<std::string_view> names;
  std::string letters;
  for (const Flag& flag : flags()) {
    EXPECT_THAT(names, testing::Not(testing::Contains(flag.name)));
    names.push_back(flag.name);
    if (flag.letter != '\0') {
      EXPECT_EQ(letters.find(flag.letter), std::string::npos) << flag.name;
      letters += flag.letter;
    }
    if (flag.value != FlagValue::none) {
      EXPECT_FALSE(placeholder_of(flag).empty()) << flag.name;
    }
    if (!flag.key.empty()) {
      EXPECT_THAT(job_keys(), testing::Contains(testing::Field(&JobKey::path, flag.key)));
    }
    EXPECT_FALSE(flag.help.empty()) << flag.name;
  }
}

}  // namespace
}  // namespace ddp::launcher
