#include "launcher/plan/command_line/split_arguments.h"
#include "common/job/job_keys.h"
#include "common/job/unknown_flag.h"

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

TEST(SplitArguments, AProgramIsNotTheValueThatWasForgotten) {
  const SplitArguments script = split({"--nproc-per-node", "train.py", "--lr", "0.1"});
  EXPECT_THAT(script.problems,
              ElementsAre("--nproc-per-node needs a number, and train.py looks like the script. "
                          "Type --nproc-per-node N train.py."));
  EXPECT_THAT(script.rest, ElementsAre("train.py", "--lr", "0.1"));
  EXPECT_THAT(split({"--grace", "a job.yaml", "seed=1"}).problems,
              ElementsAre(HasSubstr("--grace needs a value, and a job.yaml looks like the job "
                                    "file. Type --grace TIME 'a job.yaml'.")));
  EXPECT_THAT(split({"--role", "train.py", "p"}).options, ElementsAre("--role=train.py"));
  EXPECT_THAT(split({"--nproc-per-node=train.py"}).problems, IsEmpty());  // its key refuses it
}

TEST(SplitArguments, AFlagOfDdpWorkerIsShownInItsCommand) {
  EXPECT_THAT(split({"--check", "job.yaml", "data.root=a b", "launch.env.TOKEN=x"}).problems,
              ElementsAre("--check is a flag of ddp-worker. Type ddp-worker --check job.yaml "
                          "'data.root=a b' 'launch.env.TOKEN=***'."));
  EXPECT_THAT(split({"job.yaml", "--as-rank", "3/8", "--check"}).problems,
              ElementsAre("--as-rank, --check are flags of ddp-worker. Type ddp-worker --as-rank "
                          "3/8 --check job.yaml."));
  EXPECT_THAT(split({"--init_method=tcp://a:1"}).problems,
              ElementsAre(HasSubstr("Type ddp-worker --init_method=tcp://a:1 job.yaml.")));
  EXPECT_THAT(split({"--top", "5", "x"}).problems,
              ElementsAre("--top is a flag of ddp-worker predict. ddp-worker predict --help says "
                          "more."));
}

TEST(SplitArguments, AKeyIsNoFlag) {
  EXPECT_THAT(split({"--device", "cuda", "job.yaml"}).problems,
              ElementsAre("--device: there is no such flag. Of a job file it is a key: type "
                          "device=VALUE behind the file."));
  EXPECT_THAT(split({"job.yaml", "--epochs=3"}).problems,
              ElementsAre(HasSubstr("train.epochs=VALUE")));
  EXPECT_THAT(split({"--batch-per-rank=3", "p"}).problems,
              ElementsAre(HasSubstr("data.batch_per_rank=VALUE")));
  EXPECT_THAT(split({"job.yaml", "--args=3"}).problems, ElementsAre(HasSubstr("flag. ddp")));
}

TEST(SplitArguments, ANegativeNumberIsAValue) {
  EXPECT_THAT(split({"--max-restarts", "-1", "p"}).options, ElementsAre("--max-restarts=-1"));
}

TEST(SplitArguments, ProblemsAreCollected) {
  EXPECT_EQ(split({"--one", "--two", "-z", "p"}).problems.size(), 3U);
}

TEST(SplitArguments, NoArgumentsAreAccepted) {
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

TEST(Flags, DdpWorkerKnowsThemAsOurs) {
  for (const Flag& flag : flags()) {
    EXPECT_TRUE(is_launcher_flag(flag.name)) << flag.name;
    EXPECT_EQ(find_worker_flag(flag.name), nullptr) << flag.name;
  }
  EXPECT_TRUE(is_launcher_flag("nproc_per_node"));
  EXPECT_FALSE(is_launcher_flag("check"));
}

}  // namespace
}  // namespace ddp::launcher
