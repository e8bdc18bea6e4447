#include "launcher/plan/command_line/options.h"
#include "common/job/job_keys.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>

#include <set>
#include <string_view>

#include "common/error.h"
#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/command_line/help.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Words = std::vector<std::string>;

std::string option_problems(const Words& words, const Environment& environment = {}) {
  try {
    (void)parse_options(words, environment);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

const JobOverride* find(const std::vector<JobOverride>& list, const std::string& path) {
  for (const JobOverride& entry : list) {
    if (entry.path == path) return &entry;
  }
  return nullptr;
}

TEST(Options, FlagsBecomeJobKeys) {
  const Options options =
      parse_options({"--nproc-per-node", "auto", "--no-python", "prog", "a"}, {});
  EXPECT_EQ(find(options.flags, "launch.nproc_per_node")->value, "auto");
  EXPECT_EQ(find(options.flags, "launch.no_python")->value, "true");
  EXPECT_EQ(options.program, "prog");
  EXPECT_EQ(options.program_arguments, Words{"a"});
  EXPECT_FALSE(options.job_file.has_value());
}

TEST(Options, AFlagOfTextsAddsOneEachTime) {
  const Options options =
      parse_options({"--keep-daemons", "it's [1, 2]", "--keep_daemons=b: #c", "prog"}, {});
  const JobOverride* const kept = find(options.flags, "launch.keep_daemons");
  ASSERT_NE(kept, nullptr);
  const JobValues job = merge_job(nullptr, options.flags);
  EXPECT_EQ(job.texts("launch.keep_daemons"), (Words{"it's [1, 2]", "b: #c"}));
  EXPECT_THAT(option_problems({"--keep-daemons=", "prog"}), HasSubstr("its value is empty"));
}

TEST(Options, EveryKeyOfAFlagIsInTheJobTable) {
  for (const Flag& flag : flags()) {
    if (flag.key.empty()) continue;
    bool found = false;
    for (const JobKey& key : job_keys())
      found = found || key.path == flag.key;
    EXPECT_TRUE(found) << flag.key;
  }
}

TEST(Options, EmptyVariablesAreUnset) {
  for (const Flag& flag : flags()) {
    for (const std::string_view variable : {flag.variable, flag.fallback}) {
      if (variable.empty()) continue;
      EXPECT_EQ(option_problems({"p"}, {{std::string(variable), ""}}), "") << variable;
    }
  }
}

TEST(Options, AValueMayEndInAnEqualsSign) {
  const Options options = parse_options({"--rdzv-id=abc=", "prog"}, {});
  const JobValues job = resolve_job(nullptr, layer_overrides(options));
  EXPECT_EQ(job.text("launch.rdzv_id"), "abc=");
}

TEST(Options, AnEmptyValueIsADefaultOnlyWhereItIsTorchruns) {
  for (const char* const flag :
       {"--rdzv-id=", "--rdzv-endpoint=", "--rdzv_conf=", "--local-ranks-filter="})
    EXPECT_EQ(option_problems({flag, "p"}), "") << flag;
  EXPECT_EQ(option_problems({"--hosts", "", "p"}),
            "--hosts: its value is empty. Give --hosts=HOST[:N],..., or leave the flag out.");
  EXPECT_THAT(option_problems({"-t", "", "p"}), HasSubstr("Give --tee=0|1|2|3, or"));
  EXPECT_THAT(option_problems({"--append-local-rank=", "p"}),
              HasSubstr("Give --append-local-rank[=dash|underscore], or"));
  EXPECT_THAT(option_problems({"--rdzv-backend=", "p"}), HasSubstr("--rdzv-backend=static|c10d"));
  // The last one wins, and all problems come at once.
  EXPECT_EQ(option_problems({"--grace=", "--grace=5s", "p"}), "");
  EXPECT_THAT(option_problems({"--token-file=", "--explain=", "p"}),
              AllOf(HasSubstr("--token-file: "), HasSubstr("--explain: ")));
  EXPECT_TRUE(parse_options({"--grace=", "--help"}, {}).help);
}

TEST(Options, SwitchesInVariablesAreLenientAndNamed) {
  const auto is_set = [](const std::string& text) {
    return find(parse_options({"p"}, {{"PET_STANDALONE", text}}).variables, "launch.standalone") !=
           nullptr;
  };
  EXPECT_TRUE(is_set("1"));
  EXPECT_TRUE(is_set("true"));
  EXPECT_FALSE(is_set("0"));
  EXPECT_FALSE(is_set("false"));
  EXPECT_THAT(option_problems({"p"}, {{"PET_STANDALONE", "maybe"}}),
              HasSubstr("PET_STANDALONE=maybe"));
}

TEST(Options, TorchsGraceIsInSeconds) {
  EXPECT_EQ(find(parse_options({"--shutdown-timeout", "5", "p"}, {}).flags, "launch.grace")->value,
            "5s");
  EXPECT_EQ(find(parse_options({"p"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "2.5"}}).variables,
                 "launch.grace")
                ->value,
            "2.5s");
}

TEST(Options, TorchsVariableOfAFlagBeatsItsOlderOne) {
  const auto told = [](const std::string& key, const Environment& environment) {
    return find(parse_options({"p"}, environment).variables, key)->value;
  };
  const std::string older_grace = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  EXPECT_EQ(told("launch.grace", {{"PET_SHUTDOWN_TIMEOUT", "5"}, {older_grace, "7"}}), "5s");
  EXPECT_EQ(told("launch.grace", {{"PET_SHUTDOWN_TIMEOUT", ""}, {older_grace, "7"}}), "7s");
  const std::string older_prefix = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
  EXPECT_EQ(told("launch.prefix", {{"PET_LOG_LINE_PREFIX_TEMPLATE", "a"}, {older_prefix, "b"}}),
            "a");
  EXPECT_EQ(told("launch.prefix", {{older_prefix, "b"}}), "b");
}

TEST(Options, TheTemplateOfAPrefixHasTorchsName) {
  for (const char* const flag :
       {"--prefix", "--log-line-prefix-template", "--log_line_prefix_template"})
    EXPECT_EQ(find(parse_options({flag, "${rank}: ", "p"}, {}).flags, "launch.prefix")->value,
              "${rank}: ")
        << flag;
}

TEST(Options, CompletionsHaveTorchsName) {
  for (const char* const flag : {"--completion", "--print-completion", "--print_completion"})
    EXPECT_EQ(parse_options({flag, "zsh"}, {}).completion, "zsh") << flag;
}

TEST(Options, EveryFlagOfAJobHasAKey) {
  for (const Flag& flag : flags()) {
    static const std::set<std::string_view> about_this_call{"dry-run",
                                                            "debug",
                                                            "verbose",
                                                            "help",
                                                            "version",
                                                            "explain",
                                                            "completion",
                                                            "print-completion",
                                                            "man",
                                                            "schema",
                                                            "hosts",
                                                            "hostfile",
                                                            "ssh",
                                                            "token-stdin"};
    EXPECT_EQ(flag.key.empty(), about_this_call.contains(flag.name)) << flag.name;
  }
}

TEST(Options, RunsAreComparedByTheirDirectories) {
  const Options options = parse_options({"compare", "runs/a", "--html", "p.html", "b"}, {});
  EXPECT_EQ(options.verb, "compare");
  EXPECT_THAT(options.compared, ::testing::ElementsAre("runs/a", "b"));
  EXPECT_EQ(options.html, "p.html");
  EXPECT_EQ(parse_options({"compare", "a", "b", "--html=q"}, {}).html, "q");
  EXPECT_TRUE(parse_options({"compare", "--help"}, {}).help);
  EXPECT_THAT(option_problems({"compare", "a"}), HasSubstr("two runs or more, got 1"));
  EXPECT_THAT(option_problems({"compare", "a", "b", "--html"}), HasSubstr("--html needs a file"));
  EXPECT_THAT(option_problems({"compare", "a", "b", "--grace=3s"}), HasSubstr("not a flag of it"));
  EXPECT_EQ(parse_options({"./compare", "a"}, {}).program, "./compare");
}

TEST(Options, AListOfHostsComesFromOnePlace) {
  const Options options = parse_options({"--hosts", "a,b:4", "--ssh=ssh -p 1", "p"}, {});
  EXPECT_EQ(options.hosts, "a,b:4");
  EXPECT_EQ(options.ssh, "ssh -p 1");
  EXPECT_EQ(parse_options({"--hostfile=f", "p"}, {}).hostfile, "f");
  EXPECT_THAT(option_problems({"--hosts=a", "--hostfile=f", "p"}),
              HasSubstr("both name the hosts"));
  EXPECT_THAT(option_problems({"--ssh=x", "p"}), HasSubstr("no effect without --hosts"));
}

TEST(Options, AFlagWithAnOptionalWordTakesItByTheEqualsSignOnly) {
  const Options alone = parse_options({"--append-local-rank", "p"}, {});
  EXPECT_EQ(find(alone.flags, "launch.append_local_rank")->value, "dash");
  EXPECT_EQ(alone.program, "p");
  const Options given = parse_options({"--append_local_rank=underscore", "p"}, {});
  EXPECT_EQ(find(given.flags, "launch.append_local_rank")->value, "underscore");
}

TEST(Options, AJobFileTakesOverrides) {
  for (const Words& words : {Words{"job.yaml", "train.epochs=3"},
                             Words{"dir/ddp-worker", "job.yaml", "train.epochs=3"}}) {
    const Options options = parse_options(words, {});
    EXPECT_EQ(options.job_file, "job.yaml");
    ASSERT_EQ(options.overrides.size(), 1U);
    EXPECT_EQ(options.overrides[0].path, "train.epochs");
  }
  EXPECT_EQ(parse_options({"other", "job.yaml"}, {}).job_file, std::nullopt);
}

TEST(Options, NoProgramIsAProblem) {
  EXPECT_THAT(option_problems({}), HasSubstr("no program and no job file"));
}

TEST(Options, HelpBeatsEverything) {
  EXPECT_TRUE(parse_options({"--nonsense", "--help"}, {}).help);
  const std::string help = help_text();
  for (const Flag& flag : flags()) {
    EXPECT_THAT(help, HasSubstr("--" + std::string(flag.name))) << flag.name;
  }
}

// Everything that is printed of a flag goes through these two.
TEST(Options, HelpTakesChoicesAndDefaultsFromTheTableOfKeys) {
  for (const Flag& flag : flags()) {
    const JobKey* const key = find_job_key(flag.key);
    if (key == nullptr || flag.value == FlagValue::none) continue;
    for (const std::string_view choice : key->choices) {
      if (choice == "none") continue;  // what it is without the flag
      EXPECT_THAT(placeholder_of(flag), HasSubstr(std::string(choice))) << flag.name;
    }
    EXPECT_FALSE(placeholder_of(flag).empty()) << flag.name;
    const bool is_told = flag.value != FlagValue::optional && flag.support == FlagSupport::full;
    if (!is_told || key->default_value == "null") continue;
    EXPECT_THAT(describe(flag), HasSubstr("(" + std::string(key->default_value) + ")"))
        << flag.name;
  }
}

}  // namespace
}  // namespace ddp::launcher
