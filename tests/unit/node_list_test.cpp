#include "common/node/node_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Each of these is what `scontrol show hostnames` of Slurm 22.05 gives.
TEST(NodeList, ExpandsAsSlurmDoes) {
  EXPECT_THAT(read_node_list("a").names, ElementsAre("a"));
  EXPECT_THAT(read_node_list("n[01-04,7],m3").names,
              ElementsAre("n01", "n02", "n03", "n04", "n7", "m3"));
  EXPECT_THAT(read_node_list("x[1-2]y[3-4]").names, ElementsAre("x1y3", "x1y4", "x2y3", "x2y4"));
  EXPECT_THAT(read_node_list("n[08-11]").names, ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(read_node_list("n[9-10]").names, ElementsAre("n9", "n10"));
  EXPECT_THAT(read_node_list("127.0.0.[1-2]").names, ElementsAre("127.0.0.1", "127.0.0.2"));
  EXPECT_THAT(read_node_list("b,a,b").names, ElementsAre("b", "a", "b"));
}

TEST(NodeList, KeepsWhatFollowsABracket) {
  EXPECT_THAT(read_node_list("n[1-2]-ib").names, ElementsAre("n1-ib", "n2-ib"));
}

TEST(NodeList, TakesAWholeCluster) {
  EXPECT_THAT(read_node_list("n[1-65536]").names, SizeIs(kMaxListedNodes));
  EXPECT_THAT(read_node_list("r[0-255]n[0-255]").names, SizeIs(kMaxListedNodes));
}

TEST(NodeList, SaysWhyThereAreNoNames) {
  const auto problem = [](const std::string& text) {
    const NodeList list = read_node_list(text);
    EXPECT_THAT(list.names, IsEmpty()) << text;
    return list.problem;
  };
  EXPECT_THAT(problem(""), HasSubstr("an empty name"));
  EXPECT_THAT(problem("a,,b"), HasSubstr("an empty name"));
  EXPECT_THAT(problem("n[1-"), HasSubstr("brackets do not fit"));
  EXPECT_THAT(problem("n1]"), HasSubstr("brackets do not fit"));
  EXPECT_THAT(problem("n[1[2]]"), HasSubstr("brackets do not fit"));
  EXPECT_THAT(problem("n[]"), HasSubstr("numbers and ranges"));
  EXPECT_THAT(problem("n[a-b]"), HasSubstr("numbers and ranges"));
  EXPECT_THAT(problem("n[2-1]"), HasSubstr("numbers and ranges"));
  EXPECT_THAT(problem("n[-1]"), HasSubstr("numbers and ranges"));
  EXPECT_THAT(problem("n[1-2-3]"), HasSubstr("numbers and ranges"));
  EXPECT_THAT(problem("a b"), HasSubstr("blanks"));
  EXPECT_THAT(problem(std::string(254, 'n')), HasSubstr("too long"));
}

TEST(NodeList, HasLimits) {
  EXPECT_THAT(read_node_list("n[1-65537]").problem, HasSubstr("more than 65536 names"));
  EXPECT_THAT(read_node_list("n[0-999999999999]").problem, HasSubstr("more than 65536 names"));
  EXPECT_THAT(read_node_list("n[1-256]m[1-257]").problem, HasSubstr("more than 65536 names"));
  EXPECT_THAT(read_node_list("n[1-65536],m").problem, HasSubstr("more than 65536 names"));
  EXPECT_THAT(read_node_list("n[1]a[1]a[1]a[1]a[1]a[1]a[1]a[1]a[1]").problem,
              HasSubstr("too many brackets"));
}

}  // namespace
}  // namespace ddp
