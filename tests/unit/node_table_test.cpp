#include "launcher/plan/round/node_table.h"

#include <gmock/gmock.h>

#include "launcher/plan/job_size.h"

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Hello node(const std::string& host, std::optional<int> rank = std::nullopt, int nodes = 3) {
  Hello hello;
  hello.host = host;
  hello.pid = 17;
  hello.node_rank = rank;
  hello.min_nodes = hello.max_nodes = nodes;
  hello.user_run_id = "none";
  hello.version = "1.0";
  return hello;
}

std::string refusal_of(const NodeTable& table, const Hello& hello) {
  const auto refusal = table.why_not(hello);
  if (refusal) {
    EXPECT_EQ(refusal->code, 203);
  }
  return refusal ? refusal->text : "";
}

TEST(NodeTable, RanksAreThoseAskedForAndThenByOrderOfJoining) {
  NodeTable table(node("a"), false);
  const int last = table.add(node("c", 2));
  EXPECT_FALSE(table.is_full());
  const int next = table.add(node("b"));
  EXPECT_TRUE(table.is_full());
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, next, last));
  EXPECT_EQ(table.find(next).shown_node_rank(), 1);
}

TEST(NodeTable, ANewNodeJoinsOrIsRefusedWithTheReason) {
  const NodeTable table(node("a"), false);
  const NodeTable::Admission good = table.consider(node("b", 1), NodeTable::Reader::ours);
  EXPECT_TRUE(good.joins);
  EXPECT_FALSE(good.refusal || good.answer);

  Hello question = node("b", 1);
  question.is_question = true;
  const NodeTable::Admission asked = table.consider(question, NodeTable::Reader::ours);
  EXPECT_FALSE(asked.joins);
  EXPECT_FALSE(asked.answer);  // it would be welcome

  const NodeTable::Admission bad = table.consider(node("b", 1, 4), NodeTable::Reader::anyone);
  EXPECT_FALSE(bad.joins);
  EXPECT_TRUE(bad.refusal && bad.answer);

  Hello ourselves = node("a", 0);
  ourselves.is_question = true;
  EXPECT_FALSE(table.consider(ourselves, NodeTable::Reader::ours).refusal);
  ourselves.pid = 18;  // another agent of this host
  EXPECT_TRUE(table.consider(ourselves, NodeTable::Reader::ours).refusal);
}

// C5, and the classic one: both machines started as node 0.
TEST(NodeTable, ADuplicateRankIsRefusedWithBothNamed) {
  NodeTable table(node("a"), false);
  EXPECT_THAT(refusal_of(table, node("b", 0)),
              AllOf(HasSubstr("duplicate node rank 0"),
                    HasSubstr("a, pid 17"),
                    HasSubstr("b, pid 17"),
                    HasSubstr("Did you mean --node-rank 1?")));
  table.add(node("b", 1));
  EXPECT_THAT(refusal_of(table, node("c", 1)),
              AllOf(HasSubstr("duplicate node rank 1"), HasSubstr("b, pid"), HasSubstr("c, pid")));
  EXPECT_EQ(refusal_of(table, node("c", 2)), "");
}

TEST(NodeTable, OtherNumbersOfNodesAndRanksOutsideAreRefused) {
  const NodeTable table(node("a"), false);
  EXPECT_EQ(refusal_of(table, node("b", 1, 4)),
            "node 1 (b) says --nnodes 4, node 0 (a) says 3. Start both with the same number.");
  EXPECT_THAT(refusal_of(table, node("b", 3)),
              AllOf(HasSubstr("b says --node-rank 3"), HasSubstr("3 nodes: 0 to 2")));
  Hello elastic = node("b", 1);
  elastic.min_nodes = 1;
  EXPECT_THAT(refusal_of(table, elastic), HasSubstr("says --nnodes 1:3"));
}

TEST(NodeTable, AnotherJobIsRefusedByTheKeysThatDiffer) {
  Hello own = node("a");
  own.job_keys = {{"model.name", "convnet"}, {"train.epochs", "2"}};
  const NodeTable table(own, false);
  Hello other = node("b", 1);
  other.job_keys = {{"model.name", "linear"}, {"train.epochs", "2"}};
  EXPECT_THAT(refusal_of(table, other),
              HasSubstr("model.name is linear on node 1 (b) and convnet on node 0 (a)"));
  other.job_keys.clear();  // an external program there
  EXPECT_THAT(refusal_of(table, other), HasSubstr("model.name is nothing on node 1 (b)"));
  other = node("b", 1);
  other.job_keys = own.job_keys;
  EXPECT_EQ(refusal_of(table, other), "");
  other.user_run_id = "x";
  EXPECT_THAT(refusal_of(table, other), HasSubstr("says --rdzv-id x, node 0 (a) says none"));
}

// Row A7: without a token anybody may ask.
TEST(NodeTable, A7_AnUnprovenPeerHearsNoValuesOfOurs) {
  Hello own = node("a");
  own.user_run_id = "secret-id";
  own.job_keys = {{"data.root", "/secret"}, {"train.epochs", "2"}};
  const NodeTable table(own, false);
  Hello other = node("b", 1);
  EXPECT_EQ(
      table.why_not(other, NodeTable::Reader::anyone)->text,
      "node 1 (b) says --rdzv-id none, node 0 (a) says another. Start both with the same id.");
  EXPECT_THAT(refusal_of(table, other), HasSubstr("node 0 (a) says secret-id"));
  other.user_run_id = "secret-id";
  other.job_keys = {{"data.root", "/mine"}, {"train.epochs", "2"}};
  EXPECT_EQ(table.why_not(other, NodeTable::Reader::anyone)->text,
            "not the same job: data.root is /mine on node 1 (b) and something else on node 0 (a). "
            "Start both with the same job file and overrides.");
  EXPECT_THAT(refusal_of(table, other), HasSubstr("and /secret on node 0"));
}

TEST(NodeTable, A7_TextOfAnUnprovenPeerIsOneShortPlainLine) {
  const NodeTable table(node("a"), false);
  Hello other = node("b", 1);
  other.user_run_id = "x\x1b[2J\x1b[31m\nddp-launch: forged" + std::string(10000, 'y');
  std::string text = refusal_of(table, other);
  EXPECT_EQ(text.find_first_of("\x1b\n"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("x ddp-launch: forgedyyy"));
  EXPECT_LT(text.size(), 400U);
  other = node("b", 1);
  other.job_keys = {{"k\nforged\x1b[1A", "v\nforged\x1b[1A"}};
  text = refusal_of(table, other);
  EXPECT_EQ(text.find_first_of("\x1b\n"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("k forged is v forged on node 1 (b)"));
}

TEST(NodeTable, A7_MoreWorkersThanAJobMayHaveAreRefused) {
  Hello own = node("a", 0, 1000);
  own.nproc = kMaxWorkersOfNode;
  NodeTable table(own, false);
  int rank = 1;
  const auto next = [&] {
    Hello hello = node("b", rank++, 1000);
    hello.nproc = kMaxWorkersOfNode;
    return hello;
  };
  while (table.workers() + kMaxWorkersOfNode <= kMaxWorkers)
    table.add(next());
  EXPECT_THAT(refusal_of(table, next()), HasSubstr("they would be more than 1000000"));
  Hello small = next();
  small.nproc = 1;
  EXPECT_EQ(refusal_of(table, small), "");
}

TEST(NodeTable, ARefusalNamesAddressesWhereTheyAreKnown) {
  Hello own = node("a");
  own.address = "10.0.0.1";
  const NodeTable table(own, false);
  Hello other = node("b", 1, 4);
  other.address = "10.0.0.2";
  EXPECT_THAT(refusal_of(table, other),
              HasSubstr("node 1 (b, 10.0.0.2) says --nnodes 4, node 0 (a, 10.0.0.1) says 3"));
  other = node("b", 0);
  other.address = "10.0.0.2";
  EXPECT_THAT(refusal_of(table, other), HasSubstr("b, 10.0.0.2, pid"));
}

TEST(NodeTable, AnotherProtocolIsRefusedWithBothVersions) {
  const NodeTable table(node("a"), false);
  Hello other = node("b", 1);
  other.protocol = kProtocolVersion + 1;
  other.version = "9.0";
  EXPECT_THAT(refusal_of(table, other),
              AllOf(HasSubstr("speaks protocol " + std::to_string(kProtocolVersion + 1) +
                              " (ddp-launch 9.0)"),
                    HasSubstr("speaks " + std::to_string(kProtocolVersion))));
}

TEST(NodeTable, AFullJobTakesNobodyButASpare) {
  NodeTable table(node("a", 0, 2), false);
  table.add(node("b", std::nullopt, 2));
  EXPECT_THAT(refusal_of(table, node("c", std::nullopt, 2)), HasSubstr("has all its 2 nodes"));
  NodeTable patient(node("a", 0, 2), true);
  const int first = patient.add(node("b", 1, 2));
  EXPECT_EQ(refusal_of(patient, node("c", std::nullopt, 2)), "");
  const int spare = patient.add(node("c", std::nullopt, 2));
  EXPECT_THAT(patient.assign_node_ranks(), ElementsAre(0, first));
  patient.remove(first);
  EXPECT_THAT(patient.assign_node_ranks(), ElementsAre(0, spare));  // it takes the lost one's rank
}

TEST(NodeTable, AJobOfOneNodeHasNoPlace) {
  const NodeTable table(node("a", 0, 1), false);
  EXPECT_THAT(refusal_of(table, node("b", 0, 2)), HasSubstr("has one node, and no place for b"));
}

TEST(NodeTable, GapsOfLostNodesAreClosedAndTheOrderStays) {
  Hello own = node("a");
  own.min_nodes = 1;
  NodeTable table(own, false);
  Hello hello = own;
  hello.node_rank.reset();
  const int b = table.add(hello);
  const int c = table.add(hello);
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, b, c));
  table.remove(b);
  EXPECT_TRUE(table.is_enough());
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, c));
  EXPECT_EQ(table.find(c).shown_node_rank(), 1);
  const int late = table.add(hello);
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, c, late));
}

TEST(NodeTable, ANodeThatComesBackGetsTheRankThatItAsksForAgain) {
  Hello own = node("a", 0, 4);
  own.min_nodes = 1;
  const auto elastic = [&](const std::string& host, int rank) {
    Hello hello = node(host, rank, 4);
    hello.min_nodes = 1;
    return hello;
  };
  NodeTable table(own, false);
  const int b = table.add(elastic("b", 1));
  const int c = table.add(elastic("c", 2));
  const int d = table.add(elastic("d", 3));
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, b, c, d));
  table.remove(c);
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, b, d));
  EXPECT_EQ(table.find(d).shown_node_rank(), 2);
  EXPECT_THAT(refusal_of(table, elastic("e", 3)), HasSubstr("duplicate node rank 3"));
  EXPECT_EQ(refusal_of(table, elastic("c", 2)), "");
  const int again = table.add(elastic("c", 2));
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, b, again, d));
}

TEST(NodeTable, AnIllNodeGetsARankOnlyIfOneIsLeft) {
  NodeTable table(node("a", std::nullopt, 2), true);
  const int ill = table.add(node("b", 1, 2));
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, ill));
  table.deprioritize(ill);
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, ill));
  const int spare = table.add(node("c", std::nullopt, 2));
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, spare));
  table.deprioritize(spare);
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, ill));  // which asked for the rank
  table.remove(ill);
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0, spare));
}

TEST(NodeTable, Node0IsNeverLeftOut) {
  NodeTable table(node("a", std::nullopt, 1), true);
  table.deprioritize(0);
  table.add(node("b", std::nullopt, 1));
  EXPECT_THAT(table.assign_node_ranks(), ElementsAre(0));
}

TEST(NodeTable, MissingNodesAreNamed) {
  NodeTable table(node("a"), false);
  EXPECT_EQ(table.who_is_missing(), "1 of 3 nodes is here: node 0 (a); missing: node 1, node 2");
  table.add(node("c", 2));
  EXPECT_EQ(table.who_is_missing(),
            "2 of 3 nodes are here: node 0 (a), node 2 (c); missing: node 1");
  NodeTable unnamed(node("a"), false);
  unnamed.add(node("b"));
  EXPECT_EQ(unnamed.who_is_missing(), "2 of 3 nodes are here: node 0 (a), b; missing: 1 more");
}

TEST(NodeTable, ANodeZeroThatLacksTheProgramRefusesEverybodyWhoFits) {
  Hello zero = node("a");
  zero.problem_code = 127;
  zero.problem = "cannot find ./secret-name: no such file";
  const NodeTable table(zero, false);
  const auto refusal = table.why_not(node("b"));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, 127);
  EXPECT_EQ(refusal->text, "node 0 (a): cannot find ./secret-name: no such file");
  EXPECT_FALSE(ends_job(node("b"), *refusal)) << "it is not that node's fault";
  const auto unproven = table.why_not(node("b"), NodeTable::Reader::anyone);
  ASSERT_TRUE(unproven);
  EXPECT_EQ(unproven->text, "node 0 (a) cannot execute its program.");
  EXPECT_EQ(table.why_not(node("b", std::nullopt, 2))->code, 203) << "it is not of this job";
}

}  // namespace
}  // namespace ddp::launcher
