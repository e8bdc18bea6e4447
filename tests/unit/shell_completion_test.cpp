#include "common/cli/shell_completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace ddp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Value = CompletionFlag::Value;

CompletionProgram program() {
  return {.name = "my-program",
          .flags = {{.name = "color",
                     .letter = 'c',
                     .help = "it's [on]: or off, of PROGRAM",
                     .value = Value::required,
                     .placeholder = "auto|off"},
                    {.name = "rank", .value = Value::optional, .placeholder = "[=dash|underscore]"},
                    {.name = "count", .value = Value::required, .placeholder = "N|cpu"},
                    {.name = "log", .value = Value::required, .placeholder = "DIR"}},
          .verbs = {{.names = {"eval", "val"}, .flags = {{.name = "json"}}, .takes_keys = true},
                    {.names = {"doctor"}}}};
}

TEST(ShellCompletion, OffersTheWordsOfAPlaceholderAndNoStandIns) {
  const std::string script = completion_script(program(), "bash");
  EXPECT_THAT(script, HasSubstr("--color|-c) _my_program_words 'auto off'; return ;;"));
  EXPECT_THAT(script, HasSubstr("--count) _my_program_words 'cpu'; return ;;"));
  EXPECT_THAT(script, HasSubstr("--log) _my_program_files; return ;;"));
  EXPECT_THAT(script, HasSubstr("then _my_program_words 'dash underscore'; return; fi ;;"));
}

TEST(ShellCompletion, OffersTheFirstNameOfAVerbAndKnowsAll) {
  const std::string script = completion_script(program(), "bash");
  EXPECT_THAT(script, HasSubstr("    eval|val)\n      flags='--json'; (( COMP_CWORD < 3 ))"));
  EXPECT_THAT(script, HasSubstr("_my_program_words 'eval doctor'"));
  EXPECT_THAT(script, Not(HasSubstr("doctor)")));
}

TEST(ShellCompletion, QuotesHelpAsTheShellWantsIt) {
  EXPECT_THAT(completion_script(program(), "zsh"),
              HasSubstr(R"('--color=[it'\''s \[on\]\: or off, of PROGRAM]:auto|off:(auto off)')"));
  EXPECT_THAT(completion_script(program(), "fish"),
              HasSubstr(R"(-l color -s c -x -a 'auto off' -d 'it\'s [on]: or off, of PROGRAM')"));
}

TEST(ShellCompletion, AnotherShellIsRefused) {
  EXPECT_THROW(completion_script(program(), "tcsh"), UsageError);
}

}  // namespace
}  // namespace ddp
