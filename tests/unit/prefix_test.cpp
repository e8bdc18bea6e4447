#include "launcher/plan/start/prefix.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

PrefixFacts facts() {
  PrefixFacts facts;
  facts.placement = Placement{.rank = 9, .local_rank = 1, .node_rank = 2};
  facts.role = "trainer";
  facts.host = "box";
  facts.pid = 77;
  facts.stream = WorkerStream::errors;
  return facts;
}

std::string text_of(const std::string& text) {
  LogSpec spec;
  spec.prefix = text;
  return Prefix(spec, StreamPlan{}, facts()).text("12:34:56.789");
}

TEST(Prefix, OursIsNodeAndRank) {
  EXPECT_EQ(Prefix(LogSpec{}, StreamPlan{}, facts()).text(""), "[2:9] ");
}

TEST(Prefix, TeedStreamsHaveTorchrunsPrefix) {
  EXPECT_EQ(Prefix(LogSpec{}, StreamPlan{.is_teed = true}, facts()).text(""), "[trainer1]:");
}

TEST(Prefix, ATemplateBeatsBoth) {
  LogSpec spec;
  spec.prefix = "<${rank}>";
  EXPECT_EQ(Prefix(spec, StreamPlan{.is_teed = true}, facts()).text(""), "<9>");
}

TEST(Prefix, TheTemplateKnowsEightNames) {
  EXPECT_EQ(text_of("${role_name} ${rank} $local_rank ${node_rank} ${hostname} ${pid} ${stream}"),
            "trainer 9 1 2 box 77 stderr");
  EXPECT_EQ(text_of("${time} ${time}|"), "12:34:56.789 12:34:56.789|");
}

TEST(Prefix, UnknownNamesStayAndADoubledDollarIsOne) {
  EXPECT_EQ(text_of("${attempt} $rank_x ${rank $$ $${time} "),
            "${attempt} $rank_x ${rank $ ${time} ");
}

TEST(Prefix, SaysWhetherItNeedsATime) {
  LogSpec spec;
  spec.prefix = "$${time}";
  EXPECT_FALSE(Prefix(spec, StreamPlan{}, facts()).tells_time());
  spec.prefix = "$time";
  EXPECT_TRUE(Prefix(spec, StreamPlan{}, facts()).tells_time());
}

TEST(Prefix, ColorEndsWithThePrefix) {
  Prefix prefix(LogSpec{}, StreamPlan{}, facts());
  prefix.set_color(9);
  const std::string text = prefix.text("");
  EXPECT_TRUE(text.starts_with("\x1b["));
  EXPECT_TRUE(text.ends_with("[2:9] \x1b[0m"));
  Prefix other(LogSpec{}, StreamPlan{}, facts());
  other.set_color(8);
  EXPECT_NE(other.text(""), text);
}

}  // namespace
}  // namespace ddp::launcher
