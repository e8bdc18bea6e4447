#include "common/text/shell_quotes.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

using Words = std::vector<std::string>;

TEST(ShellQuotes, WordsAreThoseOfAShell) {
  EXPECT_EQ(split_shell_words("  a\tb\n c "), (Words{"a", "b", "c"}));
  EXPECT_EQ(split_shell_words("gdb -ex 'set x 1' \"a b\"c"),
            (Words{"gdb", "-ex", "set x 1", "a bc"}));
  EXPECT_EQ(split_shell_words(R"(a\ b '\' "\"\\\$\n")"), (Words{"a b", "\\", "\"\\$\\n"}));
  EXPECT_EQ(split_shell_words("'' \"\""), (Words{"", ""}));
  EXPECT_EQ(split_shell_words("$HOME *.py | ;"), (Words{"$HOME", "*.py", "|", ";"}));
  EXPECT_EQ(split_shell_words(" "), Words());
}

TEST(ShellQuotes, AnOpenQuoteHasNoWords) {
  for (const char* const text : {"a 'b", "a \"b", "a\\"})
    EXPECT_EQ(split_shell_words(text), std::nullopt) << text;
}

TEST(ShellQuotes, QuotedTextIsOneWord) {
  const std::string text = "it's \"a\" $b\\ 'c'";
  EXPECT_EQ(split_shell_words(in_quotes(text)), Words{text});
}

TEST(ShellQuotes, AWordIsQuotedOnlyWhereAShellNeedsIt) {
  EXPECT_EQ(quote_for_bash("a/b.py"), "a/b.py");
  EXPECT_EQ(quote_for_bash(""), "''");
  EXPECT_EQ(quote_for_bash("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(quote_for_bash("a\n'\\\x1b"), "$'a\\012\\'\\\\\\033'");
  EXPECT_EQ(quote_for_bash("\u009b\u202e\xff"), "$'\\302\\233\\342\\200\\256\\377'");
  EXPECT_EQ(quote_for_bash("gr\u00fcn"), "'gr\u00fcn'");
}

}  // namespace
}  // namespace ddp
