// The command line of ddp-worker.
#include "worker/plan/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/shell_completion.h"
#include "common/error.h"
#include "common/job/unknown_flag.h"

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Options parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ddp-worker");
  return parse_options(static_cast<int>(words.size()), words.data());
}

std::string refusal(const std::vector<const char*>& words) {
  try {
    parse(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(WorkerOptions, TrainIsTheDefaultVerb) {
  const Options options = parse({"job.yaml", "train.epochs=3", "--check"});
  EXPECT_EQ(options.verb, Verb::train);
  EXPECT_EQ(options.job_file, "job.yaml");
  EXPECT_EQ(options.overrides.size(), 1u);
  EXPECT_TRUE(options.check);
  EXPECT_THAT(options.files, IsEmpty());
}

TEST(WorkerOptions, AVerbTakesItsFilesAndFlags) {
  const Options exported = parse({"export", "runs/job", "-o", "x.pt", "--ema"});
  EXPECT_EQ(exported.verb, Verb::export_weights);
  EXPECT_THAT(exported.files, ElementsAre("runs/job"));
  EXPECT_EQ(exported.output, "x.pt");
  EXPECT_TRUE(exported.exports_ema);
  const Options evaluated = parse({"eval", "lr=1/latest", "job.yaml", "eval.batch=7", "--json"});
  EXPECT_EQ(evaluated.verb, Verb::evaluate);
  EXPECT_THAT(evaluated.files, ElementsAre("lr=1/latest"));
  EXPECT_EQ(evaluated.job_file, "job.yaml");
  EXPECT_EQ(evaluated.overrides.at(0).path, "eval.batch");
  EXPECT_TRUE(evaluated.is_json);
  const Options predicted = parse({"predict", "runs/job", "a=1.png", "job.yaml", "--top", "3"});
  EXPECT_THAT(predicted.files, ElementsAre("runs/job", "a=1.png", "job.yaml"));
  EXPECT_EQ(predicted.top, 3);
  EXPECT_EQ(predicted.confidence, std::nullopt);
  const Options found =
      parse({"predict", "runs/job", "photos", "-o", "out", "--confidence", "0.001", "--iou", "1"});
  EXPECT_EQ(found.output, "out");
  EXPECT_EQ(found.confidence, 0.001);
  EXPECT_EQ(found.iou, 1);
  EXPECT_EQ(parse({"val", "runs/job", "job.yaml"}).verb, Verb::evaluate) << "the field's word";
  EXPECT_EQ(parse({"preview", "job.yaml"}).verb, Verb::preview);
  EXPECT_TRUE(parse({"inspect", "a", "b", "--trust-checkpoint"}).trust);
}

TEST(WorkerOptions, AFlagOfAnotherVerbIsRefusedWithThoseThatTakeIt) {
  EXPECT_THAT(refusal({"job.yaml", "--json"}),
              HasSubstr("--json is a flag of inspect, eval, predict"));
  EXPECT_THAT(refusal({"inspect", "a", "--ema", "--check"}),
              AllOf(HasSubstr("--ema is a flag of export."),
                    HasSubstr("--check is a flag of a training."),
                    HasSubstr("ddp-worker inspect CKPT [OTHER] [--json]")));
}

TEST(WorkerOptions, NearbyNamesAreSuggested) {
  EXPECT_THAT(refusal({"job.yaml", "--chekc"}), HasSubstr("did you mean --check?"));
  EXPECT_THAT(refusal({"evaluate", "runs/job"}), HasSubstr("did you mean ddp-worker eval?"));
  EXPECT_THAT(refusal({"something"}), HasSubstr("nor KEY=VALUE. Try --help."));
}

TEST(WorkerOptions, AFlagOfDdpLaunchIsShownInItsCommand) {
  EXPECT_THAT(refusal({"--nproc-per-node", "2", "job.yaml", "launch.env.KEY=secret"}),
              HasSubstr("--nproc-per-node is a flag of ddp-launch. Type ddp-launch "
                        "--nproc-per-node 2 job.yaml 'launch.env.KEY=***'."));
  EXPECT_THAT(refusal({"eval", "runs/a", "--standalone"}),
              HasSubstr("Type ddp-launch [FLAGS] ddp-worker eval CKPT"));
  EXPECT_THAT(refusal({"inspect", "runs/a", "--dry-run"}),
              HasSubstr("--dry-run is a flag of ddp-launch, and inspect needs none. Leave it out"));
  EXPECT_THAT(refusal({"job.yaml", "--epochs=3"}), HasSubstr("type train.epochs=VALUE."));
}

// The launcher knows these by a list of its own.
TEST(WorkerOptions, DdpLaunchKnowsItsFlags) {
  for (const CompletionVerb& verb : completion_program().verbs) {
    for (const CompletionFlag& flag : verb.flags) {
      if (is_launcher_flag(flag.name) || verb.names[0] == "fetch") continue;
      const WorkerFlag* const known = find_worker_flag(flag.name);
      ASSERT_NE(known, nullptr) << flag.name;
      EXPECT_EQ(known->takes_value, flag.value != CompletionFlag::Value::none) << flag.name;
    }
  }
  for (const CompletionFlag& flag : completion_program().flags) {
    if (is_launcher_flag(flag.name)) continue;
    const WorkerFlag* const known = find_worker_flag(flag.name);
    ASSERT_NE(known, nullptr) << flag.name;
    EXPECT_EQ(known->verb, "") << flag.name;
    EXPECT_EQ(known->takes_value, flag.value != CompletionFlag::Value::none) << flag.name;
  }
}

TEST(WorkerOptions, TooFewOrTooManyFilesShowHowItIsTyped) {
  EXPECT_THAT(refusal({"export", "-o", "x.pt"}), HasSubstr("Usage: ddp-worker export CKPT -o"));
  EXPECT_THAT(refusal({"export", "a"}), HasSubstr("export needs -o"));
  EXPECT_THAT(refusal({"inspect", "a", "b", "c"}), HasSubstr("inspect CKPT [OTHER]"));
  EXPECT_THAT(refusal({"predict", "a"}), HasSubstr("predict CKPT IMAGE|FOLDER ..."));
  EXPECT_THAT(refusal({"predict", "a", "b", "--top", "0"}), HasSubstr("--top 0"));
  for (const char* const share : {"1.5", "-0.1", "nan"}) {
    EXPECT_THAT(refusal({"predict", "a", "b", "--confidence", share}),
                HasSubstr(std::string("--confidence ") + share + ": not a number from 0 to 1."));
    EXPECT_THAT(refusal({"predict", "a", "b", "--iou", share}), HasSubstr("--iou "));
  }
  EXPECT_THAT(refusal({"predict", "a", "b", "--iou", "much"}), HasSubstr("much"));
  EXPECT_THAT(refusal({"eval", "a", "job.yaml", "--iou", "0.5"}), HasSubstr("flag of predict"));
}

TEST(WorkerOptions, RanksMeetToTrainAndToEvaluateWhateverIsWrongWithTheRest) {
  const auto is_for_many = [](std::vector<const char*> words) {
    words.insert(words.begin(), "ddp-worker");
    return needs_all_ranks(static_cast<int>(words.size()), words.data());
  };
  EXPECT_TRUE(is_for_many({}));
  EXPECT_TRUE(is_for_many({"job.yaml", "--nonsense", "--"}));
  EXPECT_TRUE(is_for_many({"eval", "--nonsense"}));
  EXPECT_TRUE(is_for_many({"val", "runs/job", "--json"}));
  for (const char* const verb : {"predict", "inspect", "export", "preview"})
    EXPECT_FALSE(is_for_many({verb, "--nonsense"})) << verb;
  for (const char* const flag : {"--check",
                                 "--ch",
                                 "--as-rank",
                                 "--as-rank=1/2",
                                 "--completion",
                                 "--completion=bash",
                                 "--help",
                                 "-h"})
    EXPECT_FALSE(is_for_many({"job.yaml", "--nonsense", flag})) << flag;
}

TEST(WorkerOptions, TheHelpNamesEveryVerb) {
  for (const char* const word : {"preview", "export", "inspect", "eval", "predict", "fetch"})
    EXPECT_THAT(help_text(Verb::train), HasSubstr(std::string("\n  ddp-worker ") + word + " "));
}

TEST(WorkerOptions, TheHelpOfAVerbHasItsFlagsAlone) {
  EXPECT_EQ(parse({"predict", "--help"}).verb, Verb::predict);
  const std::string help = help_text(Verb::predict);
  EXPECT_THAT(help, HasSubstr("Usage: ddp-worker predict CKPT IMAGE|FOLDER"));
  for (const char* const flag :
       {"--top", "--confidence", "--output", "--json", "--trust", "--help"})
    EXPECT_THAT(help, HasSubstr(flag));
  for (const char* const other : {"--ema", "--as-rank", "--progress", "train.epochs"})
    EXPECT_THAT(help, Not(HasSubstr(other)));
}

}  // namespace
}  // namespace ddp::worker
