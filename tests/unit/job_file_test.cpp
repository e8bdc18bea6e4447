// A job file and its overrides: what is accepted, and how problems are reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/job/batch_plan.h"
#include "common/job/job_keys.h"
#include "common/job/job_rules.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"
#include "common/node/home_path.h"

namespace ddp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A job that is fine but for what a test adds.
JobValues resolve(const std::string& yaml,
                  const std::vector<std::string>& arguments = {"data.batch_per_rank=64"}) {
  const YamlDocument document = parse_yaml(yaml, "job.yaml");
  std::vector<JobOverride> overrides;
  for (const std::string& argument : arguments)
    overrides.push_back(parse_override(argument).value());
  return resolve_job(&document, overrides);
}

std::string problems_of(const std::string& yaml,
                        const std::vector<std::string>& arguments = {"data.batch_per_rank=64"}) {
  try {
    resolve(yaml, arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(JobFile, EveryDefaultIsAValueOfItsType) {
  const JobValues job = resolve("");
  for (const JobKey& key : job_keys())
    EXPECT_NO_THROW(to_text(key, job.setting(key.path).value)) << key.path;
}

TEST(JobFile, EveryKeyIsThereOnceAndHasHelp) {
  std::map<std::string_view, int> seen;
  for (const JobKey& key : job_keys()) {
    EXPECT_EQ(++seen[key.path], 1) << key.path;
    EXPECT_FALSE(key.help.empty()) << key.path;
  }
}

TEST(JobFile, TheExampleOfTheManualIsAccepted) {
  const JobValues job = resolve(R"(
version: 1
name: mnist
output: runs
seed: 1
device: auto
backend: auto
launch:  {nproc_per_node: 2, nnodes: 1, max_restarts: 0, grace: 30s, env: {}}
parallel: ddp
data:    {name: digits, root: null, batch_per_rank: 64, workers: 2}
model:   {name: convnet, norm: batch, weights: null}
optimizer: {name: sgd, lr: 0.05, momentum: 0.9, nesterov: false, weight_decay: 1e-4, scale_lr: none}
schedule: {name: cosine, warmup: 1}
amp:     {level: O0, dtype: bf16}
ddp:     {bucket: 25MiB, broadcast_buffers: auto, find_unused: false, static_graph: false, hook: none, check_replicas_every: 500}
train:   {epochs: 2, accumulate: 1, clip_norm: null, log_every: 20, deterministic: false}
eval:    {every: 1, patience: null}
checkpoint: {every: 1, interval: 10min, keep: 3, resume: auto}
metrics: {tensorboard: true, csv: true, jsonl: true}
)",
                                {});
  EXPECT_EQ(job.integer("launch.nproc_per_node"), 2);
  EXPECT_EQ(job.integer("ddp.bucket"), 25 << 20);
  EXPECT_EQ(job.duration("checkpoint.interval"), std::chrono::minutes(10));
  EXPECT_EQ(job.setting("seed").origin, "job.yaml:5:7");
}

TEST(JobFile, LaterLayersWin) {
  const JobValues job = resolve("train: {epochs: 2}\ndata: {batch_per_rank: 8}\n",
                                {"train.epochs=3", "train.epochs=5"});
  EXPECT_EQ(job.integer("train.epochs"), 5);
  EXPECT_EQ(job.setting("train.epochs").origin, "train.epochs=5");
}

TEST(JobFile, ATildeOfAPathIsTheHomeInFilesAndOverrides) {
  const JobValues job =
      resolve("data: {name: own, root: ~/mnist, batch: 8, args: {more: ~/more, glob: a~}}\n",
              {"model.weights=~/w.pt", "data.args.other=~/other", "output=~"});
  const std::string home = expand_home("~");
  ASSERT_NE(home, "~");
  EXPECT_EQ(job.text("data.root"), home + "/mnist");
  EXPECT_EQ(job.text("model.weights"), home + "/w.pt");
  EXPECT_EQ(job.text("output"), home);
  EXPECT_EQ(job.text_map("data.args"),
            (TextMap{{"more", home + "/more"}, {"glob", "a~"}, {"other", home + "/other"}}));
}

TEST(JobFile, ArgumentsMayBeMapsOfArguments) {
  const JobValues job = resolve(
      "data: {name: digits, batch: 8}\n"
      "model: {name: mlp, args: {hidden: 8, outputs: {main: 1, aux: 0.4}}}\n",
      {"model.args.outputs.aux=0.2"});
  EXPECT_EQ(job.text_map("model.args"),
            (TextMap{{"hidden", "8"}, {"outputs.main", "1"}, {"outputs.aux", "0.2"}}));
  EXPECT_EQ(job.setting("model.args").origins.at("outputs.main"), "job.yaml:2:54");
  EXPECT_THAT(problems_of("model: {name: mlp, args: {outputs: {main: {deep: 1}}}}"),
              HasSubstr("model.args.outputs.main: a map is not a text or a number"));
  EXPECT_THAT(problems_of("launch: {env: {A: {B: c}}}"),
              HasSubstr("launch.env.A: a map is not a text or a number"));
}

TEST(JobFile, AScriptIsTheModelAlone) {
  EXPECT_EQ(problems_of("model: {script: net.pt}"), "");
  for (const char* const key : {"name: resnet18", "stem: cifar", "norm: sync"}) {
    EXPECT_THAT(problems_of(std::string("model: {script: net.pt, ") + key + "}"),
                HasSubstr("Remove it, or model.script."))
        << key;
  }
}

TEST(JobFile, Y5_TwentyProblemsAreShownAndTheOthersCounted) {
  for (const int count : {20, 21, 3000}) {
    std::string unknown;
    std::string twice;
    for (int i = 0; i < count; ++i) {
      unknown += "nobody" + std::to_string(i) + ": 1\n";
      twice += "seed: 1\n";
    }
    for (const std::string& text : {unknown, twice + "seed: 1\n"}) {
      const std::string problems = problems_of(text);
      EXPECT_EQ(std::ranges::count(problems, '\n'), count > 20 ? 20 : 19) << text.substr(0, 20);
      EXPECT_EQ(
          problems.find("and " + std::to_string(count - 20) + " more like th") != problems.npos,
          count > 20)
          << problems.substr(problems.size() - 60);
    }
  }
}

TEST(JobFile, AllProblemsAreSaidAtOnceWithTheirPlace) {
  const std::string problems =
      problems_of("epoch: 3\noptimizer:\n  momentun: 0.9\n  lr: -1\ntrain: {epochs: 3.7}\n",
                  {"train.epohcs=2", "data=3"});
  EXPECT_THAT(problems,
              HasSubstr("job.yaml:1:1: epoch: unknown key, did you mean \"train.epochs\"?"));
  EXPECT_THAT(
      problems,
      HasSubstr(
          "job.yaml:3:3: optimizer.momentun: unknown key, did you mean \"optimizer.momentum\"? "
          "Allowed: name, lr, momentum, "
          "nesterov, weight_decay, "));
  EXPECT_THAT(problems, HasSubstr("job.yaml:4:7: optimizer.lr: -1 is not a number above 0"));
  EXPECT_THAT(problems,
              HasSubstr("job.yaml:5:17: train.epochs: 3.7 is not a whole number from 1 to"));
  EXPECT_THAT(
      problems,
      HasSubstr("train.epohcs=2: train.epohcs: unknown key, did you mean \"train.epochs\"?"));
  EXPECT_THAT(problems, HasSubstr("data=3: data: is a section"));
}

TEST(JobFile, KeysAndSectionsNameTheAllowedDifferencesFromACheckpoint) {
  const std::string path = "checkpoint.resume=runs/a/best";
  const std::string batch = "data: {batch: 8}\n";
  EXPECT_EQ(problems_of(batch, {path, "checkpoint.allow=[optimizer.lr, schedule, eval.watch]"}),
            "");
  EXPECT_THAT(problems_of(batch, {path, "checkpoint.allow=[optimizer.lrr]"}),
              HasSubstr("optimizer.lrr: unknown key, did you mean \"optimizer.lr\"?"));
  EXPECT_THAT(problems_of(batch, {path, "checkpoint.allow=[optimiser]"}),
              HasSubstr("optimiser: unknown key, did you mean \"optimizer\"?"));
  EXPECT_THAT(problems_of(batch, {"checkpoint.allow=[optimizer]"}),
              HasSubstr("checkpoint.resume is auto. Give the path, as runs/digits/best."));
}

TEST(JobFile, NumbersAreReadStrictly) {
  for (const char* const bad : {"010",
                                "1e3",
                                "0x10",
                                "1_000",
                                "yes",
                                "\"3\"",
                                "9223372036854775808",
                                "-1",
                                "0",
                                "3.0",
                                "+3",
                                "[3]",
                                "{a: 1}",
                                "null"}) {
    EXPECT_THAT(problems_of(std::string("train: {epochs: ") + bad + "}"), HasSubstr("train.epochs"))
        << bad;
  }
  for (const char* const bad :
       {".nan", ".inf", "nan", "inf", "1e400", "0", "-0.1", "01.5", "\"1\"", "12abc"}) {
    EXPECT_THAT(problems_of(std::string("optimizer: {lr: ") + bad + "}"), HasSubstr("optimizer.lr"))
        << bad;
  }
  for (const char* const bad : {"yes", "on", "True", "1", "\"true\""}) {
    EXPECT_THAT(problems_of(std::string("metrics: {csv: ") + bad + "}"), HasSubstr("true or false"))
        << bad;
  }
  EXPECT_EQ(problems_of("optimizer: {lr: 1e-3}"), "");
}

TEST(JobFile, ChoicesAreNamed) {
  EXPECT_THAT(problems_of("schedule: {name: cosin}"),
              HasSubstr("plateau (did you mean \"cosine\"?)"));
  EXPECT_THAT(problems_of("eval: {watch: {mode: maximum}}"),
              HasSubstr("eval.watch.mode: maximum is not one of auto, min, max"));
  EXPECT_THAT(problems_of("name: ../x"), HasSubstr("letters, digits"));
  EXPECT_THAT(problems_of("version: 2"), HasSubstr("2 is not 1"));
}

TEST(JobFile, ASlipIsAnsweredByAllThatIsToBeTyped) {
  EXPECT_THAT(problems_of("data: {nme: mnist}"), HasSubstr("did you mean \"data.name\"?"));
  EXPECT_THAT(problems_of("", {"eval.wach.mode=min"}),
              HasSubstr("did you mean \"eval.watch.mode\"?"));
  EXPECT_THAT(problems_of("", {"dta.name=mnist"}), HasSubstr("did you mean \"data.name\"?"));
  EXPECT_THAT(problems_of("dta: {name: mnist}"), HasSubstr("did you mean \"data\"?"));
  EXPECT_THAT(problems_of("launch: {nproc_per_node: atuo}"),
              HasSubstr("or xpu (did you mean \"auto\"?)"));
  EXPECT_THAT(problems_of("device: cuad"), HasSubstr("cuda:N (did you mean \"cuda\"?)."));
  EXPECT_THAT(problems_of("device: gpu:1"), HasSubstr("(did you mean \"cuda:1\"?)."));
  EXPECT_THAT(problems_of("device: cuda:x"), HasSubstr("(did you mean \"cuda\"?)."));
  EXPECT_THAT(problems_of("{parallel: data, devices: [cpuu]}"),
              HasSubstr("cuda:N (did you mean \"cpu\"?)."));
  EXPECT_THAT(problems_of("device: elsewhere"), HasSubstr("cpu, cuda or cuda:N."));
}

TEST(JobFile, AWrongEntryOfAListIsNamedByItsPlace) {
  const auto problem = [](const std::string& augment) {
    return problems_of("data: {augment: " + augment + "}");
  };
  EXPECT_THAT(problem("[flip, null]"),
              HasSubstr("data.augment[1]: null is not a name, or one with"));
  EXPECT_THAT(problem("[[flip]]"), HasSubstr("data.augment[0]: a list is not a name"));
  EXPECT_THAT(problem("[\"\"]"), HasSubstr("data.augment[0]: \"\" is not a name"));
  EXPECT_THAT(problem("[{flip: 3}]"),
              HasSubstr("data.augment[0].flip: 3 is not a map of its arguments, as in {crop: "));
  EXPECT_THAT(problem("[{crop: {size: [4]}}]"),
              HasSubstr("data.augment[0].crop.size: a list is not a text or a number"));
  EXPECT_THAT(problem("flip"), HasSubstr("data.augment: flip is not a list of names"));
}

TEST(JobFile, AnOwnProgramMayKnowMoreModelsThanDdpWorker) {
  const JobValues job = resolve(
      "data: {name: minst, batch_per_rank: 8}\nmodel: {name: tiny}\noptimizer: {name: adm}\n", {});
  EXPECT_EQ(job.text("model.name"), "tiny");
  try {
    require_built_in(job);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("job.yaml:1:14: data.name: minst is not one of digits, mnist, "
                                "fashion-mnist, cifar10, cifar100, image-folder, coco, synthetic "
                                "(did you mean \"mnist\"?)"),
                      HasSubstr("job.yaml:2:15: model.name: tiny is not one of convnet, "),
                      HasSubstr("one of sgd, adam, adamw (did you mean \"adam\"?)")));
  }
  EXPECT_NO_THROW(require_built_in(resolve("data: {batch_per_rank: 8}", {})));
}

TEST(JobFile, TrainingRules) {
  EXPECT_THAT(problems_of("device: gpu"), HasSubstr("gpu is not auto, cpu, cuda or cuda:N"));
  EXPECT_THAT(problems_of("device: cuda:x"), HasSubstr("cuda:x is not auto"));
  EXPECT_EQ(problems_of("device: cuda:1"), "");
  for (const std::string color : {"white", "black", "'#0aF99f'"})
    EXPECT_EQ(problems_of("data: {background: " + color + "}"), "") << color;
  for (const std::string color :
       {"red", "'#12345'", "'#1234567'", "'#12345g'", "'#+1+2+3'", "''"}) {
    EXPECT_THAT(problems_of("data: {background: " + color + "}"),
                HasSubstr(" is not a color. Give white, black, or \"#rrggbb\" in quotes."))
        << color;
  }
  EXPECT_THAT(problems_of("devices: [cuda:0, auto]"), HasSubstr("auto is not cpu, cuda or cuda:N"));
  EXPECT_THAT(problems_of("{device: cpu, backend: nccl}"), HasSubstr("nccl needs GPUs"));
  EXPECT_THAT(problems_of("{ddp: {static_graph: true}, train: {accumulate: 2}}"),
              HasSubstr("ddp.static_graph: true does not go with train.accumulate above 1"));
  EXPECT_THAT(problems_of("amp: {loss_scale: -1}"), HasSubstr("neither dynamic nor a number"));
  EXPECT_EQ(problems_of("amp: {loss_scale: 128}"), "");
  EXPECT_THAT(problems_of("optimizer: {ema_ramp: 2000}"), HasSubstr("Give optimizer.ema_decay"));
  EXPECT_EQ(problems_of("optimizer: {ema_ramp: 2000, ema_decay: 0.9999}"), "");
  EXPECT_THAT(problems_of("train: {non_finite: go}"), HasSubstr("stop, skip"));
  EXPECT_THAT(problems_of("optimizer: {lr_factors: {conv1.weight: fast}}"),
              HasSubstr("conv1.weight: fast is not a number above 0"));
  EXPECT_THAT(problems_of("{parallel: data, model: {norm: sync}}"),
              HasSubstr("sync is for parallel=ddp"));
  EXPECT_THAT(problems_of("devices: [cpu]"), HasSubstr("is for parallel=data"));
  EXPECT_THAT(problems_of("{parallel: data, output_device: gpu}"), HasSubstr("gpu is not cpu"));
  EXPECT_THAT(problems_of("schedule: {min_lr: 1}"), HasSubstr("is above optimizer.lr"));
  EXPECT_THAT(problems_of("{schedule: {name: plateau}, eval: {every: 0}}"),
              HasSubstr("plateau looks at evaluations"));
  EXPECT_THAT(problems_of("model: {freeze: conv1}"), HasSubstr("is not a list of texts"));
}

TEST(JobFile, AKeyThatContradictsTheRestIsRefused) {
  EXPECT_THAT(problems_of("optimizer: {name: adam, nesterov: true}"),
              HasSubstr("optimizer.nesterov: true is for optimizer.name=sgd"));
  EXPECT_THAT(problems_of("ddp: {static_graph: true, find_unused: true}"),
              HasSubstr("ddp.find_unused: true is without effect"));
  EXPECT_THAT(problems_of("schedule: {name: multistep}"), HasSubstr("there are none. Give epochs"));
  EXPECT_THAT(problems_of("data: {args: {a: b}}"), HasSubstr("data.args: are for data sets that"));
  EXPECT_THAT(problems_of("task: {args: {a: b}}"), HasSubstr("task.args: are for tasks that"));
  EXPECT_THAT(problems_of("loss: {args: {a: b}}"), HasSubstr("loss.args: are for losses that"));
  EXPECT_THAT(problems_of("optimizer: {name: adam, args: {a: b}}"),
              HasSubstr("optimizer.args: are for optimizers that"));
  EXPECT_EQ(problems_of("optimizer: {name: lion, args: {a: b}, nesterov: true}"), "");
}

TEST(JobFile, AKeyThatNothingReadsIsSaid) {
  const auto lines = [](const std::string& text) { return unread_keys(resolve(text, {})); };
  EXPECT_THAT(lines("data: {batch: 8}"), IsEmpty());
  EXPECT_THAT(lines("{data: {batch: 8}, parallel: data, ddp: {bucket: 1MiB}}"),
              ElementsAre("ddp.bucket is without effect: with parallel=data one process trains"));
  EXPECT_THAT(lines("{data: {batch: 8}, optimizer: {name: adamw, momentum: 0.5}}"),
              ElementsAre("optimizer.momentum is without effect: it is for sgd, optimizer.name is "
                          "adamw"));
  EXPECT_THAT(
      lines("{data: {batch: 8}, optimizer: {beta2: 0.9}, schedule: {power: 2, min_lr: 1e-5}}"),
      ElementsAre(HasSubstr("optimizer.beta2 is"),
                  "schedule.power is without effect: it is for polynomial, schedule.name is "
                  "cosine"));
  // A resolved job names every key, with its default.
  const JobValues job = resolve("{data: {batch: 8}, optimizer: {name: adam}}", {});
  const YamlDocument written = parse_yaml(to_yaml(job), "job.yaml");
  EXPECT_THAT(unread_keys(resolve_job(&written, {})), IsEmpty());
}

TEST(JobFile, ExactlyOneBatchIsGiven) {
  EXPECT_THAT(problems_of("", {}), HasSubstr("exactly one"));
  EXPECT_THAT(problems_of("data: {batch: 64}"),
              AllOf(HasSubstr("exactly one"),
                    HasSubstr("job.yaml:1:15"),
                    HasSubstr("data.batch_per_rank=64")));
  EXPECT_EQ(problems_of("data: {batch_per_rank: 8}", {"data.batch_per_rank=null", "data.batch=16"}),
            "");
}

TEST(JobFile, NamesThatCannotWorkAreRefused) {
  EXPECT_THAT(problems_of("output: ''"), HasSubstr("job.yaml:1:9: output: is empty"));
  EXPECT_THAT(problems_of("name: latest"), HasSubstr("link to the newest run"));
}

TEST(JobFile, FileSetsNeedARoot) {
  EXPECT_THAT(problems_of("data: {name: mnist}"), HasSubstr("needs data.root"));
  EXPECT_EQ(problems_of("data: {name: mnist, root: x}"), "");
}

TEST(JobFile, TheWholeBatchIsDividedWhateverTheNumberOfRanks) {
  const JobValues job = resolve("data: {batch: 100}\ntrain: {accumulate: 2}\n", {});
  const BatchPlan plan = plan_batch(job, 5);
  EXPECT_EQ(plan.micro_batch, 10);
  EXPECT_EQ(plan.global_batch, 100);
  EXPECT_EQ(plan_batch(job, 3).micro_batch, 17);
  EXPECT_EQ(plan_batch(job, 3).global_batch, 100);
  EXPECT_EQ(plan_batch(job, 50).micro_batch, 1);
  try {
    plan_batch(job, 51);
    FAIL() << "100 samples are not enough for 51 ranks of 2 micro-steps";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Take at least 102."));
  }
  EXPECT_EQ(plan_batch(resolve("data: {batch_per_rank: 7}", {}), 3).global_batch, 21);
}

TEST(JobFile, TheResolvedFileReadsBackAsTheSameJob) {
  const JobValues job = resolve(
      "name: \"true\"\nmodel: {args: {A: \"b: c\", EMPTY: \"\"}}\nlaunch: {nproc_per_node: "
      "auto}\ntrain: {clip_norm: 0.1}\n");
  const YamlDocument again = parse_yaml(to_yaml(job), "again.yaml");
  ASSERT_THAT(again.problems, ::testing::IsEmpty());
  const JobValues read = resolve_job(&again, {});
  for (const JobKey& key : job_keys())
    EXPECT_EQ(read.setting(key.path).value, job.setting(key.path).value) << key.path;
}

TEST(JobFile, KeysThatMayDifferAreNotPartOfTheJob) {
  const TextMap a =
      job_identity(resolve("data: {root: a}\noutput: b\nlaunch: {nproc_per_node: 4}"), false);
  const TextMap b = job_identity(resolve("data: {root: c}\nmetrics: {csv: false}"), false);
  EXPECT_EQ(a, b);
  EXPECT_NE(job_identity(resolve("train: {epochs: 3}"), false), b);
  EXPECT_EQ(job_identity(resolve("train: {epochs: 3}"), true), job_identity(resolve(""), true));
  EXPECT_NE(job_identity(resolve("optimizer: {lr: 0.1}"), true), job_identity(resolve(""), true));
  // A rank that ends for it leaves a collective, so all must do so.
  EXPECT_NE(job_identity(resolve("data: {max_bad: 0.5}"), false), job_identity(resolve(""), false));
  EXPECT_EQ(job_identity(resolve("data: {max_bad: 0.5}"), true), job_identity(resolve(""), true));
  EXPECT_EQ(
      job_identity(resolve("name: other\ntrain: {log_every: 7}\ncheckpoint: {keep: 9}"), true),
      job_identity(resolve(""), true));
  // Who was stopped may go on and skip; ranks of one run must agree.
  const JobValues skips = resolve("train: {non_finite: skip}");
  EXPECT_EQ(job_identity(skips, true), job_identity(resolve(""), true));
  EXPECT_NE(job_identity(skips, false), job_identity(resolve(""), false));
}

TEST(JobFile, EntriesOfAMapCanBeOverridden) {
  const JobValues job =
      resolve("launch: {env: {A: x}}", {"data.batch_per_rank=1", "launch.env.B=y: [z"});
  EXPECT_EQ(job.text_map("launch.env"), (TextMap{{"A", "x"}, {"B", "y: [z"}}));
}

TEST(JobFile, SecretsAreNotShown) {
  const JobValues job =
      resolve("launch: {env: {A: s3cret}}", {"data.batch_per_rank=1", "launch.env.B=s3cret"});
  EXPECT_THAT(to_yaml(job), HasSubstr("env: {A: \"***\", B: \"***\"}  # launch.env.B=***\n"));
  const JobValues whole = resolve("", {"data.batch_per_rank=1", "launch.env={A: s3cret}"});
  EXPECT_THAT(to_yaml(whole), Not(HasSubstr("s3cret")));
  EXPECT_EQ(mask_secret("launch.env.A=s3cret=1"), "launch.env.A=***");
  EXPECT_EQ(mask_secret("launch.env={A: s3cret}"), "launch.env=***");
  EXPECT_EQ(mask_secret("launch.environment=x"), "launch.environment=x");
  EXPECT_EQ(mask_secret("seed=3"), "seed=3");
  EXPECT_EQ(mask_secret("--output"), "--output");
  EXPECT_EQ(job_identity(job, true), job_identity(resolve("", {"data.batch_per_rank=1"}), true));
}

TEST(JobFile, ListsAreOfAscendingNumbers) {
  EXPECT_EQ(resolve("schedule: {milestones: [1, 30]}").integers("schedule.milestones"),
            (std::vector<std::int64_t>{1, 30}));
  const std::vector<std::string> arguments{"data.batch=1", "schedule.milestones=[5]"};
  EXPECT_EQ(resolve("", arguments).integers("schedule.milestones"), (std::vector<std::int64_t>{5}));
  for (const char* const bad : {"[3, 1]", "3", "[a]", "[0]", "[1, 1]", "{a: 1}"}) {
    EXPECT_THAT(problems_of(std::string("schedule: {milestones: ") + bad + "}"),
                HasSubstr("ascending list"))
        << bad;
  }
}

}  // namespace
}  // namespace ddp
