// -r, -t, the filters and the layouts: what goes where.
#include "launcher/plan/start/log_spec.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>

#include "common/error.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/start/log_layout.h"

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

JobSpec make_log_spec(Words words) {
  words.emplace_back("program");
  const Options options = parse_options(words, {});
  return make_job_spec(options, resolve_job(nullptr, layer_overrides(options)), {4, 0}, {});
}

std::string log_problems(const Words& words) {
  try {
    (void)make_log_spec(words);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

StreamPlan plan(const JobSpec& spec, int local_rank, WorkerStream stream) {
  return plan_stream(spec.logs, spec.has_run_dir, local_rank, stream);
}

constexpr auto kOut = WorkerStream::output;
constexpr auto kErr = WorkerStream::errors;

TEST(LogSpec, OneNumberIsForAllRanks) {
  EXPECT_THAT(make_log_spec({"--nproc-per-node=3", "-r", "2"}).logs.redirects,
              ElementsAre(2, 2, 2));
  EXPECT_THAT(make_log_spec({"--nproc-per-node=2", "-t3"}).logs.tee, ElementsAre(3, 3));
}

TEST(LogSpec, RanksOfAnySizeAndRanges) {
  const JobSpec spec = make_log_spec({"--nproc-per-node=12", "-t", "0-2:1,10:3,1:0"});
  EXPECT_THAT(spec.logs.tee, ElementsAre(1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0));
}

TEST(LogSpec, ValuesThatTorchrunRefusesAreRefused) {
  for (const char* const text :
       {"4", "0:4", "00", "0:1,", ",0:1", "0:", ":1", "a:1", "1-0:3", "-1", "0:1;1:1", "0 :1"}) {
    const std::string problem = log_problems({"--nproc-per-node=2", "--tee=" + std::string(text)});
    EXPECT_THAT(problem, HasSubstr("--tee: \"" + std::string(text) + "\": write 0, 1 (stdout)"));
  }
  EXPECT_THAT(log_problems({"--local-ranks-filter=0,"}), HasSubstr("write local ranks"));
}

TEST(LogSpec, RanksThatThisNodeDoesNotHaveArePassedOverWithAWarning) {
  const JobSpec redirected = make_log_spec({"--nproc-per-node=2", "-r", "1-5:1,7:3"});
  EXPECT_THAT(redirected.logs.redirects, ElementsAre(0, 1));
  EXPECT_EQ(redirected.warnings.size(), 2U);
  const JobSpec filtered = make_log_spec({"--nproc-per-node=2", "--local-ranks-filter=0,7"});
  EXPECT_THAT(filtered.logs.shown, ElementsAre(true, false));
  EXPECT_THAT(
      filtered.warnings,
      ElementsAre("--local-ranks-filter: 0,7: there is no local rank 7, this node has 0 to 1"));
}

TEST(LogSpec, ProblemsStandInOneListWithTheOthers) {
  const std::string problems = log_problems({"-r", "4", "-t", "00", "--rdzv-conf=a"});
  EXPECT_THAT(problems, HasSubstr("--redirects: "));
  EXPECT_THAT(problems, HasSubstr("--tee: "));
  EXPECT_THAT(problems, HasSubstr("--rdzv-conf: "));
}

TEST(LogSpec, FiltersAreAListAndTwoCommasAreOne) {
  const auto filters = [](const std::string& text) {
    return make_log_spec({"--duplicate-stdout-filters=" + text}).logs.filters[0];
  };
  EXPECT_THAT(filters("apple,orange"), ElementsAre("apple", "orange"));
  EXPECT_THAT(filters("a,,b,c"), ElementsAre("a,b", "c"));
  EXPECT_THAT(filters("a,"), ElementsAre("a"));
}

TEST(LogSpec, WithoutFlagsAllIsShownAndInTheRunDirectory) {
  EXPECT_EQ(plan(make_log_spec({}), 0, kOut), (StreamPlan{.is_logged = false, .is_shown = true}));
  EXPECT_EQ(plan(make_log_spec({"--output=runs"}), 0, kOut),
            (StreamPlan{.is_logged = true, .is_shown = true}));
  EXPECT_EQ(plan(make_log_spec({"--log-dir=logs"}), 0, kOut),
            (StreamPlan{.is_logged = false, .is_shown = true}));
}

TEST(LogSpec, ARedirectedStreamIsInTheFileOnlyAndTeeWins) {
  const JobSpec redirected = make_log_spec({"--log-dir=logs", "-r1"});
  EXPECT_EQ(plan(redirected, 0, kOut), (StreamPlan{.is_logged = true, .is_shown = false}));
  EXPECT_EQ(plan(redirected, 0, kErr), (StreamPlan{.is_logged = false, .is_shown = true}));
  EXPECT_EQ(plan(make_log_spec({"-r3", "-t1"}), 0, kOut),
            (StreamPlan{.is_logged = true, .is_shown = true, .is_teed = true}));
  EXPECT_EQ(plan(make_log_spec({"--output=runs", "-r3"}), 0, kErr),
            (StreamPlan{.is_logged = true, .is_shown = false}));
}

TEST(LogSpec, DevNullTakesNoFileAndHidesNothing) {
  const JobSpec spec = make_log_spec({"--log-dir=/dev/null", "-r3"});
  EXPECT_EQ(plan(spec, 0, kOut), (StreamPlan{.is_logged = false, .is_shown = true}));
  EXPECT_FALSE(wants_log_dir(spec.logs, spec.has_run_dir));
}

TEST(LogSpec, FilteredRanksAreNeitherShownNorCopied) {
  const JobSpec spec = make_log_spec(
      {"--nproc-per-node=3", "-t3", "--local-ranks-filter=0,2", "--duplicate-stdout-filters=x"});
  EXPECT_EQ(plan(spec, 1, kOut),
            (StreamPlan{.is_logged = true, .is_shown = false, .is_teed = true}));
  EXPECT_TRUE(plan(spec, 2, kOut).has_filtered_file);
  EXPECT_FALSE(plan(spec, 2, kErr).has_filtered_file);
}

TEST(LogSpec, AFilterThatCopiesNothingIsAWarning) {
  EXPECT_THAT(make_log_spec({"--duplicate-stdout-filters=x"}).warnings,
              ElementsAre(HasSubstr("--duplicate-stdout-filters has no effect")));
  EXPECT_THAT(make_log_spec({"--duplicate-stdout-filters=x", "-t1"}).warnings, IsEmpty());
}

TEST(LogSpec, ADirectoryIsMadeOnlyWhenSomethingGoesThere) {
  const auto wants = [](const Words& words) {
    const JobSpec spec = make_log_spec(words);
    return wants_log_dir(spec.logs, spec.has_run_dir);
  };
  EXPECT_FALSE(wants({}));
  EXPECT_TRUE(wants({"-r", "0:1"}));
  EXPECT_TRUE(wants({"-t3"}));
  EXPECT_FALSE(wants({"-t3", "--output=runs"}));
  EXPECT_TRUE(wants({"--log-dir=logs"}));
  EXPECT_TRUE(wants({"--log-dir=logs", "--output=runs"}));
}

TEST(LogSpec, ColorsAreForTerminalsThatWantThem) {
  const auto colors = [](const std::string& choice, bool is_terminal, Environment environment) {
    environment.emplace("TERM", "xterm");
    return is_colored(make_log_spec({"--color=" + choice}).logs, is_terminal, environment);
  };
  EXPECT_TRUE(colors("auto", true, {}));
  EXPECT_TRUE(colors("auto", true, {{"NO_COLOR", ""}}));
  EXPECT_FALSE(colors("auto", false, {}));
  EXPECT_FALSE(colors("auto", true, {{"NO_COLOR", "1"}}));
  EXPECT_FALSE(colors("auto", true, {{"TERM", "dumb"}}));
  EXPECT_TRUE(colors("always", false, {{"NO_COLOR", "1"}}));
  EXPECT_FALSE(colors("never", true, {}));
}

RoundFacts second_round() {
  RoundFacts facts;
  facts.round = 1;
  return facts;
}

TEST(LogLayout, TheRunDirectoryNamesRanks) {
  const JobSpec spec = make_log_spec({"--output=runs", "--duplicate-stderr-filters=x"});
  RoundFacts facts = second_round();
  facts.run_dir = "/runs/a";
  const WorkerFiles files = place_files(spec, facts, Placement{.rank = 5}, "/scratch");
  EXPECT_EQ(files.output, "/runs/a/logs/round-1/rank-5.out");
  EXPECT_EQ(files.errors, "/runs/a/logs/round-1/rank-5.err");
  EXPECT_EQ(files.filtered_output, "");
  EXPECT_EQ(files.filtered_errors, "/runs/a/logs/round-1/filtered_stderr.log");
  EXPECT_EQ(files.error_file, "/scratch/round-1-rank-5.json");
}

TEST(LogLayout, NodesThatShareARunDirectoryShareNoFile) {
  const JobSpec spec = make_log_spec({"--output=runs", "--duplicate-stderr-filters=x"});
  RoundFacts facts = second_round();
  facts.run_dir = "/runs/a";
  const Placement placement{.rank = 5, .node_rank = 2, .nodes = 3};
  EXPECT_EQ(place_files(spec, facts, placement, "/s").filtered_errors,
            "/runs/a/logs/round-1/filtered_stderr-node-2.log");
}

TEST(LogLayout, TorchrunsNamesLocalRanks) {
  const JobSpec spec = make_log_spec(
      {"--nproc-per-node=2", "--log-dir=logs", "-t1", "--duplicate-stdout-filters=x"});
  RoundFacts facts = second_round();
  facts.log_dir = "/logs/none_12345678";
  const WorkerFiles files =
      place_files(spec, facts, Placement{.rank = 5, .local_rank = 1}, "/scratch");
  EXPECT_EQ(files.output, "/logs/none_12345678/attempt_1/1/stdout.log");
  EXPECT_EQ(files.errors, "");
  EXPECT_EQ(files.filtered_output, "/logs/none_12345678/attempt_1/filtered_stdout.log");
  EXPECT_EQ(files.error_file, "/logs/none_12345678/attempt_1/1/error.json");
}

TEST(LogLayout, DevNullHasNoErrorFileEither) {
  const JobSpec spec = make_log_spec({"--log-dir=/dev/null"});
  EXPECT_EQ(place_files(spec, second_round(), Placement{}, "/scratch").error_file, "");
}

TEST(LogLayout, ASlashOfTheRunIdIsNoDirectory) {
  EXPECT_EQ(log_dir_name("team/job", "ab"), "team_job_ab");
}

}  // namespace
}  // namespace ddp::launcher
