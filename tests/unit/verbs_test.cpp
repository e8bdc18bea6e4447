#include "launcher/plan/command_line/verbs.h"

#include <gmock/gmock.h>

#include "common/error.h"

namespace ddp::launcher {
namespace {

using testing::HasSubstr;

std::optional<VerbRequest> parse(const std::vector<std::string>& words) {
  return parse_verb(words);
}

std::string verb_problems(const std::vector<std::string>& words) {
  try {
    (void)parse(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Verbs, AJobARankAndFlagsInAnyOrder) {
  EXPECT_EQ(parse({"status"}), VerbRequest{.verb = "status"});
  EXPECT_EQ(parse({"status", "--watch", "mine"}),
            (VerbRequest{.verb = "status", .job = "mine", .watch = true}));
  EXPECT_EQ(parse({"status", "mine", "-w"}),
            (VerbRequest{.verb = "status", .job = "mine", .watch = true}));
  EXPECT_EQ(parse({"status", "--json"}), (VerbRequest{.verb = "status", .json = true}));
  EXPECT_EQ(parse({"stop", "runs/x/"}), (VerbRequest{.verb = "stop", .job = "runs/x/"}));
  EXPECT_EQ(parse({"logs", "-f", "3"}), (VerbRequest{.verb = "logs", .job = "3", .follow = true}));
  EXPECT_EQ(parse({"logs", "mine", "3", "--follow"}),
            (VerbRequest{.verb = "logs", .job = "mine", .rank = "3", .follow = true}));
}

TEST(Verbs, OtherWordsAreAProgram) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{},
                                                {"./status"},
                                                {"--standalone", "status"},
                                                {"train.py", "status"},
                                                {"doctor"},
                                                {"compare", "a", "b"}})
    EXPECT_FALSE(parse(words));
}

TEST(Verbs, MistakesAreToldTogether) {
  EXPECT_THAT(verb_problems({"stop", "a", "b"}), HasSubstr("stop takes one job, got 2 words"));
  EXPECT_THAT(verb_problems({"logs", "a", "1", "2"}),
              HasSubstr("logs takes one job and one rank, got 3 words"));
  EXPECT_THAT(verb_problems({"status", "a", "b"}),
              HasSubstr("A program of that name is started as ./status."));
  EXPECT_THAT(verb_problems({"stop", "--watch"}), HasSubstr("--watch is not a flag of it"));
  EXPECT_THAT(verb_problems({"status", "--wacth"}),
              HasSubstr("not a flag of it, did you mean --watch? Type ddp-launch status"));
  EXPECT_THAT(verb_problems({"status", "-f", "a", "b"}),
              testing::AllOf(HasSubstr("-f is not a flag"), HasSubstr("got 2 words")));
  EXPECT_THAT(verb_problems({"status", "--watch", "--json"}), HasSubstr("do not go together"));
  EXPECT_THAT(verb_problems({"status", ""}), HasSubstr("empty"));
}

TEST(Verbs, EachHasItsHelp) {
  for (const Verb& verb : verbs()) {
    const std::string page = verb_help(verb.name);
    EXPECT_THAT(page, HasSubstr("ddp-launch " + std::string(verb.words) + "\n"));
    EXPECT_TRUE(verb.words.starts_with(verb.name));
    EXPECT_TRUE(verb.example.words.starts_with(verb.name)) << verb.name;
    EXPECT_THAT(page, HasSubstr("\nExample:\n  ddp-launch " + std::string(verb.example.words)));
    for (const VerbFlag& flag : verb.flags)
      EXPECT_THAT(page, HasSubstr(std::string(flag.name) + "  "));
  }
  EXPECT_EQ(parse({"stop", "a", "b", "--help"})->help, true);  // nothing else is looked at
  EXPECT_EQ(parse({"logs", "-h"})->help, true);
}

}  // namespace
}  // namespace ddp::launcher
