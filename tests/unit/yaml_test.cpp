#include "common/files/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/error.h"
#include "tests/support/instrumented.h"
#include "tests/unit/memory_limit.h"
#include "tests/unit/scratch.h"

namespace ddp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Yaml, KeepsThePlaceOfEveryValue) {
  const YamlDocument document = parse_yaml("a: 1\nb:\n  c: [x, \"2\"]\n", "job.yaml");
  ASSERT_THAT(document.problems, IsEmpty());
  ASSERT_EQ(document.root.entries.size(), 2u);
  EXPECT_EQ(document.root.entries[0].key, "a");
  EXPECT_EQ(document.root.entries[0].value.mark, (Mark{1, 4}));
  const YamlNode& list = document.root.entries[1].value.entries[0].value;
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.mark, (Mark{3, 6}));
  EXPECT_FALSE(list.items[0].quoted);
  EXPECT_TRUE(list.items[1].quoted);
}

TEST(Yaml, NullIsNullOnlyWhenPlain) {
  const YamlDocument document = parse_yaml("[null, ~, , \"null\", '']", "x");
  ASSERT_THAT(document.problems, IsEmpty());
  ASSERT_EQ(document.root.items.size(), 5u);
  EXPECT_EQ(document.root.items[0].kind, YamlNode::Kind::null);
  EXPECT_EQ(document.root.items[1].kind, YamlNode::Kind::null);
  EXPECT_EQ(document.root.items[2].kind, YamlNode::Kind::null);
  EXPECT_EQ(document.root.items[3].kind, YamlNode::Kind::scalar);
  EXPECT_EQ(document.root.items[4].kind, YamlNode::Kind::scalar);
}

TEST(Yaml, SyntaxErrorsShowTheLineAndACaret) {
  const YamlDocument document = parse_yaml("a: 1\nb: [1, 2\nc: 3\n", "job.yaml");
  ASSERT_EQ(document.problems.size(), 1u);
  EXPECT_THAT(document.problems[0], HasSubstr("job.yaml:2:4"));
  EXPECT_THAT(document.problems[0], HasSubstr("\n    b: [1, 2\n"));
  EXPECT_THAT(document.problems[0], HasSubstr("^"));
}

TEST(Yaml, AnUnclosedBracketIsReportedWhereItWasOpened) {
  const auto problem = [](const std::string& text) {
    const YamlDocument document = parse_yaml(text, "f");
    return document.problems.empty() ? "none" : document.problems[0];
  };
  EXPECT_THAT(problem("data: {name: digits\nmodel: {name: convnet}\n"),
              AllOf(HasSubstr("f:1:7: this { is not closed: there is no } before line 2, column "),
                    HasSubstr("\n    data: {name: digits\n          ^")));
  EXPECT_THAT(problem("a: {b: 1}\ntrain:\n  milestones: [1, 2\nseed: 1\n"),
              HasSubstr("f:3:15: this [ is not closed: there is no ] before"));
  EXPECT_THAT(problem("a: {b: [1, 2}\n"), HasSubstr("f:1:8: this [ is not closed"));
  EXPECT_THAT(problem("a: {b: it's, c: '}', d: \"]\" # }\n  , e: [x]\n"),
              HasSubstr("f:1:4: this { is not closed"));
  const std::string quoted = ": the text in quotes that begins here is not closed before ";
  EXPECT_THAT(problem("seed: 1\nname: \"convnet\nmodel: 2\n"),
              HasSubstr("f:2:7" + quoted + "the end of the file"));
  EXPECT_THAT(problem("name: 'it''s\nmodel: {a: 2}\n"), HasSubstr("f:1:7" + quoted));
  EXPECT_THAT(problem("name: {a: \"x}\nmodel: 2\n"), HasSubstr("f:1:11" + quoted));
  EXPECT_THAT(problem("a: \"x\nb: \"y\"\n"), HasSubstr("f:1:4" + quoted + "line 2, column "));
  EXPECT_THAT(problem("a: \"x\\\"\n y\"\nb: 'it''s'\n"), "none");
  EXPECT_THAT(problem("a: {b: c: d}\n"), Not(HasSubstr("not closed")));
  EXPECT_THAT(problem("a: b: c\n"), Not(HasSubstr("not closed")));
}

TEST(Yaml, TabsAreNoIndentation) {
  EXPECT_THAT(parse_yaml("a:\n\tb: 1\n", "job.yaml").problems,
              ElementsAre(HasSubstr("job.yaml:2:")));
}

TEST(Yaml, TextThatOtherReadersGuessIsRefused) {
  EXPECT_THAT(parse_yaml("a: &x 1\nb: *x\n", "f").problems,
              ElementsAre(HasSubstr("f:1:4: anchors"), HasSubstr("f:2:4: aliases")));
  EXPECT_THAT(parse_yaml("a: 1\na: 2\n", "f").problems,
              ElementsAre(HasSubstr("f:2:1: \"a\" is given twice; the first is on line 1")));
  EXPECT_THAT(parse_yaml("<<: {a: 1}\n", "f").problems, ElementsAre(HasSubstr("merge keys")));
  EXPECT_THAT(parse_yaml("a: 1\n---\nb: 2\n", "f").problems,
              ElementsAre(HasSubstr("more than one document")));
  EXPECT_THAT(parse_yaml("a: !!int 1\n", "f").problems, ElementsAre(HasSubstr("tags")));
  EXPECT_THAT(parse_yaml("? [a, b]\n: 1\n", "f").problems,
              ElementsAre(HasSubstr("a key must be a plain word")));
  EXPECT_THAT(parse_yaml("a: \xff\n", "f").problems,
              ElementsAre(HasSubstr("f:1:4: invalid UTF-8 at byte 3")));
  EXPECT_THAT(parse_yaml(std::string_view("a: \0b", 5), "f").problems,
              ElementsAre(HasSubstr("zero byte")));
}

TEST(Yaml, ByteOrderMarkAndCarriageReturnsAreFine) {
  const YamlDocument document = parse_yaml(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: two\r\n",
      "f");
  ASSERT_THAT(document.problems, IsEmpty());
  EXPECT_EQ(document.root.entries[0].key, "a");
  EXPECT_EQ(document.root.entries[1].value.text, "two");
}

TEST(Yaml, BombsAreRefusedQuickly) {
  // Depth, count, and the classic doubling of aliases; each within milliseconds, so a second is
  // plenty.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(parse_yaml(std::string(33, '['), "f").problems,
              ElementsAre(HasSubstr("nested deeper than 32")));
  for (const std::string piece : {"[", "[]", "[{", "{a: ", "- ", "? ", "&a ", "x "}) {
    std::string text = "first: 1\nsecond: ";
    while (text.size() < 1'000'000)
      text += piece;
    EXPECT_THAT(parse_yaml(text, "f").problems,
                ElementsAre(HasSubstr("f:2:1: this line has more than 16384 bytes")));
  }
  std::string flows;
  for (int i = 0; i < 10'001; ++i)
    flows += i % 2 == 0 ? "[\n" : "{\n";
  EXPECT_THAT(parse_yaml(flows, "f").problems,
              ElementsAre(HasSubstr("more than 10000 brackets and commas")));
  std::string many;
  for (int i = 0; i < 20'000; ++i)
    many += "- 1\n";
  EXPECT_THAT(parse_yaml(many, "f").problems, ElementsAre(HasSubstr("more than 10000 values")));
  std::string aliases = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    const std::string before = std::string("*") + static_cast<char>(c - 1);
    aliases += std::string(1, c) + ": &" + c + " [" + before + "," + before + "]\n";
  }
  EXPECT_FALSE(parse_yaml(aliases, "f").problems.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, test::allowed(std::chrono::seconds(5)));
}

// As long as brackets are open, yaml-cpp keeps all that it has read.
TEST(Yaml, Y5_LongTextInBracketsTakesLittleMemory) {
  for (const std::string entry : {"1,\n", ",\n", "{a: 1},\n"}) {
    std::string text = "[";
    while (text.size() < 1'000'000)
      text += entry;
    const MemoryLimit limit(std::size_t{5} << 20);
    for (const std::string key : {"", "a: "})
      EXPECT_THAT(parse_yaml(key + text + "1]", "f").problems,
                  ElementsAre(HasSubstr("f: more than 10000 brackets and commas")))
          << key << entry;
  }
  std::string fits = "{";
  for (int i = 0; i < 4900; ++i)
    fits += "k" + std::to_string(i) + ": 1,\n";
  const MemoryLimit limit(std::size_t{8} << 20);
  EXPECT_THAT(parse_yaml(fits + "z: 1}", "f").problems, IsEmpty());
}

TEST(Yaml, ATabInTheIndentationIsCalledOne) {
  const char* const called = ": a tab in the indentation, which is spaces in YAML.";
  EXPECT_THAT(parse_yaml("data:\n\tname: digits\n\tbatch: 64\n", "f").problems,
              ElementsAre(HasSubstr(std::string("f:2:1") + called)));
  EXPECT_THAT(parse_yaml("data:\n  name: digits\n\tbatch: 64\n", "f").problems,
              ElementsAre(HasSubstr(std::string("f:3:1") + called)));
  EXPECT_THAT(parse_yaml("data:\n  name: digits\n \tbatch: 64\n", "f").problems,
              ElementsAre(HasSubstr(std::string("f:3:2") + called)));
  EXPECT_THAT(parse_yaml("data:\t{batch:\t64}\n", "f").problems, IsEmpty());
  EXPECT_THAT(parse_yaml("a: \tx\nb: [1\n", "f").problems,
              ElementsAre(Not(HasSubstr("indentation"))));
}

TEST(Yaml, OnlySmallRegularFilesAreRead) {
  const Scratch scratch;
  const std::filesystem::path folder = scratch.path();
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      read_yaml_file(path);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(folder / "missing.yaml"), HasSubstr("No such file"));
  EXPECT_THAT(message(folder), HasSubstr("not a regular file"));
  EXPECT_THAT(message("/dev/zero"), HasSubstr("not a regular file"));
  const std::filesystem::path fifo = folder / "fifo.yaml";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(message(fifo), HasSubstr("not a regular file"));
  const std::filesystem::path large = folder / "large.yaml";
  std::ofstream(large) << "a: 1\n";
  std::filesystem::resize_file(large, (1 << 20) + 1);
  EXPECT_THAT(message(large), HasSubstr("at most 1048576"));
}

TEST(Yaml, QuotedTextReadsBackEqual) {
  for (const std::string text : {"plain",
                                 "",
                                 "null",
                                 "true",
                                 "1.5",
                                 "a: b",
                                 "# no comment",
                                 "tab\there",
                                 "quote\"\\",
                                 "ends:",
                                 "-dash",
                                 "../path/x.yaml",
                                 "multi\nline",
                                 "*star",
                                 "\x7f",
                                 "a\u0085\u202eb",
                                 "ünï"}) {
    const YamlDocument document = parse_yaml("k: " + quote_yaml(text), "f");
    ASSERT_THAT(document.problems, IsEmpty()) << text;
    EXPECT_EQ(document.root.entries[0].value.text, text);
    EXPECT_EQ(document.root.entries[0].value.kind, YamlNode::Kind::scalar) << text;
  }
}

// What is known at a glance is not given to yaml-cpp; a newline behind it is, and changes nothing.
TEST(Yaml, TheFastReaderOfPlainWordsAgreesWithTheParser) {
  for (const std::string text :
       {"null", "true", "no",    "0.05", "1e-4", "25MiB", "one-cycle", "a--b",   "x...",
        "0x1F", "a/b",  "1_000", "007",  "n",    "Null",  "NULL",      "12.5.7", "2026-11-24",
        "none", "nULL", "a,b",   "a,",   "1,,2", "[]",    "{}"}) {
    const YamlNode word = parse_yaml(text, "w").root;
    const YamlNode line = parse_yaml(text + "\n", "w").root;
    EXPECT_EQ(word.kind, line.kind) << text;
    EXPECT_EQ(word.text, line.text) << text;
    EXPECT_EQ(word.quoted, line.quoted) << text;
    EXPECT_EQ(word.mark, line.mark) << text;
  }
}

}  // namespace
}  // namespace ddp
