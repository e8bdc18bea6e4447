// What a user types, and what is started or refused. Nothing may be started when something is
// wrong.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::string_literals;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class LauncherArguments : public ProcessTest {
 protected:
  /// A job file that starts the fake worker instead of ddp-worker.
  std::string job_file(const std::string& more = "") {
    return write_file(
        "job.yaml",
        "name: test\noutput: " + scratch().string() +
            "/runs\ndata: {batch_per_rank: 8}\nlaunch: {nproc_per_node: 2, program: " +
            DDP_FAKE_WORKER + "}\n" + more);
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
};

TEST_F(LauncherArguments, AllUsageErrorsAreShownAtOnceAndExit2) {
  const auto job =
      launch({"--no-such-flag", "--master", "x", "--standalone=1", DDP_FAKE_WORKER, "print", "no"});
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), HasSubstr("--no-such-flag"));
  EXPECT_THAT(job->err(), HasSubstr("--master-addr, --master-port"));
  EXPECT_THAT(job->err(), HasSubstr("--standalone=1"));
  EXPECT_EQ(job->out(), "");
}

TEST_F(LauncherArguments, AScriptThatWantsTheOtherSpellingOfItsRankGetsAHint) {
  const std::string script = write_file("t.py",
                                        "import argparse\n"
                                        "parser = argparse.ArgumentParser()\n"
                                        "parser.add_argument('--local_rank', type=int)\n"
                                        "parser.parse_args()\n"
                                        "print('fine')\n");
  const auto refused = launch({"--append-local-rank", script});
  EXPECT_EQ(refused->wait(), 2);
  EXPECT_THAT(refused->err(), HasSubstr("  hint      : the script does not know --local-rank;"));
  const auto taken = launch({"--append-local-rank=underscore", script});
  EXPECT_EQ(taken->wait(), 0);
  EXPECT_THAT(taken->out(), HasSubstr("fine"));
}

TEST_F(LauncherArguments, AScriptWhosePythonHasNoTorchGetsAHint) {
  const std::string script = write_file("t.py",
                                        "import sys\n"
                                        "sys.path = [p for p in sys.path if '-packages' not in p]\n"
                                        "import torch\n");
  const auto job = launch({script});
  EXPECT_EQ(job->wait(), 1);
  EXPECT_THAT(job->err(),
              ContainsRegex("  hint      : /.*/python3[^ ]* ran it, and has no torch: "));
}

TEST_F(LauncherArguments, ValuesOutOfRangeAreNamedWithTheirFlag) {
  for (const std::string& flag : {std::string("--nproc-per-node=0"),
                                  std::string("--nproc-per-node=2.5"),
                                  std::string("--nproc-per-node=-1"),
                                  std::string("--max-restarts=-1"),
                                  std::string("--master-port=65536"),
                                  std::string("--nnodes=2:1"),
                                  std::string("--nnodes=0"),
                                  std::string("--nnodes=1:"),
                                  std::string("--node-rank=1"),
                                  std::string("--rdzv-backend=etcd"),
                                  std::string("--grace=5"),
                                  std::string("--rdzv-endpoint=h:70000"),
                                  std::string("--rdzv-conf=a"),
                                  std::string("--log-dir=/dev/null/x"),
                                  std::string("--tee=4"),
                                  std::string("--numa-binding=half"),
                                  std::string("--store=rank0"),
                                  std::string("--append-local-rank=camel")}) {
    const auto job = launch({flag, DDP_FAKE_WORKER, "print", "no"});
    EXPECT_EQ(job->wait(), 2) << flag;
    EXPECT_THAT(job->err(), HasSubstr(flag.substr(0, flag.find('=')))) << flag;
    EXPECT_EQ(job->out(), "") << flag;
  }
}

TEST_F(LauncherArguments, VariablesStandForFlagsAndFlagsBeatThem) {
  const auto job = start(Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "print", "x"},
                                 .environment = {{"PET_NPROC_PER_NODE", "3"}}});
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->out(), HasSubstr("[0:2] x"));

  const auto less =
      start(Command{.arguments = {DDP_LAUNCH, "--nproc_per_node=1", DDP_FAKE_WORKER, "print", "x"},
                    .environment = {{"PET_NPROC_PER_NODE", "3"}}});
  EXPECT_EQ(less->wait(), 0);
  EXPECT_EQ(less->out(), "[0:0] x\n");

  const auto bad = start(Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER},
                                 .environment = {{"PET_STANDALONE", "yes"}}});
  EXPECT_EQ(bad->wait(), 2);
  EXPECT_THAT(bad->err(), HasSubstr("PET_STANDALONE=yes"));
}

TEST_F(LauncherArguments, DryRunStartsNothingAndShowsEveryRank) {
  const auto job =
      launch({"--dry-run", "--nproc-per-node", "2", DDP_FAKE_WORKER, "print", "${local_rank} $$"});
  EXPECT_EQ(job->wait(), 0);
  EXPECT_THAT(job->out(), HasSubstr("rank 1 of 2, node 0, local rank 1"));
  EXPECT_THAT(job->out(), HasSubstr("print '1 $'"));
  EXPECT_THAT(job->out(), HasSubstr("    WORLD_SIZE=2\n"));
  EXPECT_THAT(job->out(), HasSubstr("  device: "));
  EXPECT_THAT(job->out(), Not(HasSubstr("[0:0]")));
}

TEST_F(LauncherArguments, ControlCharactersOfAJobFileAreNotPrinted) {
  const std::string file = write_file(
      "job.yaml",
      "output: \"out\\e]0;title\\a\\u202e\"\ndata: {batch_per_rank: 8}\nlaunch: {program: " +
          std::string(DDP_FAKE_WORKER) + ", env: {SHOWN: x}}\n");
  for (const std::string& flag : {"--dry-run"s, "--explain=output"s}) {
    const auto job = launch({flag, file});
    EXPECT_EQ(job->wait(), 0) << job->err();
    const std::string text = job->out() + job->err();
    EXPECT_THAT(text, HasSubstr("title")) << flag;
    for (const std::string& obeyed : {"\x1b"s, "\a"s, "\u202e"s})
      EXPECT_THAT(text, Not(HasSubstr(obeyed))) << flag;
  }
}

TEST_F(LauncherArguments, AJobFileStartsItsProgramWithFileAndOverrides) {
  const std::string file = job_file();
  const auto job = launch({file, "train.epochs=3"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("[0:0] arguments " + file + " train.epochs=3\n"));
  EXPECT_THAT(job->out(), HasSubstr("[0:1] arguments "));
  const auto run = scratch() / "runs" / "test";
  EXPECT_THAT(read(run / "job.yaml"), HasSubstr("epochs: 3"));
  EXPECT_THAT(read(run / "result.json"), HasSubstr("\"exit_code\":0"));
  EXPECT_EQ(read(run / "logs/round-0/rank-1.out"), "arguments " + file + " train.epochs=3\n");
}

TEST_F(LauncherArguments, FlagsBeatTheJobFile) {
  const auto job = launch({"--nproc-per-node", "1", job_file()});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), Not(HasSubstr("[0:1]")));
}

TEST_F(LauncherArguments, EveryErrorOfAJobFileIsSaidOnceAndNothingStarts) {
  const auto job = launch({job_file("train: {epoch: 3}\nseed: x\n"), "optimizer.momentun=1"});
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(),
              HasSubstr("job.yaml:5:9: train.epoch: unknown key, did you mean \"train.epochs\"?"));
  EXPECT_THAT(job->err(), HasSubstr("job.yaml:6:7: seed: x is not"));
  EXPECT_THAT(job->err(), HasSubstr("optimizer.momentun=1: optimizer.momentun: unknown key"));
  EXPECT_EQ(lines_of(job->err()).size(), 3U);
  EXPECT_EQ(job->out(), "");
  EXPECT_FALSE(std::filesystem::exists(scratch() / "runs"));
}

TEST_F(LauncherArguments, ABatchThatCannotBeDividedStartsNothing) {
  const auto job = launch({job_file(), "data.batch_per_rank=null", "data.batch=1"});
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), HasSubstr("1 is too few for 2 ranks"));
}

TEST_F(LauncherArguments, ArgumentsThatAreNotOverridesAreNamed) {
  const auto job = launch({job_file(), "epochs", "--", "--dry-run"});
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), HasSubstr("epochs: after a job file come overrides"));
  EXPECT_THAT(job->err(), HasSubstr("--dry-run: after a job file come overrides"));
}

TEST_F(LauncherArguments, FlagsMayFollowAJobFile) {
  const auto job = launch({job_file(), "--dry-run", "train.epochs=7", "--nproc-per-node", "3"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("rank 2 of 3"));
  EXPECT_THAT(job->out(), HasSubstr(" train.epochs=7\n"));
}

TEST_F(LauncherArguments, AKeyIsExplainedAlsoWhereOthersExcludeEachOther) {
  const std::string wrong = "data.args={a: b}";
  const auto job = launch({job_file(), "--explain", "checkpoint.resume", wrong});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("  value    auto\n  from     default\n"));
  EXPECT_EQ(job->err(), "");
  EXPECT_EQ(launch({job_file(), "--dry-run", wrong})->wait(), 2);
  EXPECT_EQ(launch({job_file(), "--explain", "train.epochs", "train.epochs=many"})->wait(), 2);
}

TEST_F(LauncherArguments, APythonScriptRunsUnderPython) {
  const std::string script = write_file("show.py",
                                        "import os, sys\nprint(os.environ['RANK'], sys.argv[1:], "
                                        "sys.stdout.line_buffering or sys.stdout.write_through)\n");
  const auto job = launch({"--nproc-per-node", "2", script, "--", "--lr", "0.1"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("[0:1] 1 ['--lr', '0.1'] True\n"));
}

TEST_F(LauncherArguments, APythonModuleRunsByName) {
  write_file("show_module.py", "import os\nprint('module', os.environ['LOCAL_RANK'])\n");
  const auto job = start(Command{.arguments = {DDP_LAUNCH, "-m", "show_module"},
                                 .environment = {{"PYTHONPATH", scratch().string()}}});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "[0:0] module 0\n");
}

}  // namespace
}  // namespace ddp::test
