#include "launcher/plan/start/listen_addresses.h"

#include <gmock/gmock.h>

#include "common/error.h"

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Addresses = std::vector<MasterAddress::Address>;

const std::vector<std::string> kLoopback{"127.0.0.1", "::1"};
const std::vector<std::string> kEverywhere{"0.0.0.0", "::"};
const std::string kInstead = "; listening at all of this node's addresses instead";

MasterAddress number(const std::string& text, const Addresses& addresses) {
  return {text, true, false, addresses, ""};
}

MasterAddress name(const std::string& text, const Addresses& addresses) {
  return {text, false, false, addresses, ""};
}

MasterAddress unknown(const std::string& text) {
  return {text, false, false, {}, "Host not found"};
}

TEST(ListenAddresses, OneNodeServesLoopbackAndWhatTheUserNamed) {
  struct Row {
    MasterAddress master;
    std::vector<std::string> own;
  };
  const std::vector<Row> rows{
      {{"localhost", false, true, {{"127.0.0.1", true}, {"::1", true}}, ""}, kLoopback},
      {{"127.0.0.1", true, true, {{"127.0.0.1", true}}, ""}, {"127.0.0.1"}},
      {{"::1", true, true, {{"::1", true}}, ""}, {"::1"}},
      {{"127.0.0.2", true, true, {{"127.0.0.2", true}}, ""}, {"127.0.0.2"}},
      {number("0.0.0.0", {{"0.0.0.0"}}), {}},
      {number("::", {{"::"}}), {}},
      {number("10.0.0.1", {{"10.0.0.1"}}), {"10.0.0.1"}},
      {name("a", {{"10.0.0.1"}, {"::1", true}, {"fd00::1"}}), {"10.0.0.1", "fd00::1"}},
  };
  for (const Row& row : rows) {
    const ListenAddresses where = choose_listen_addresses(row.master, false);
    EXPECT_EQ(where.basic, kLoopback) << row.master.name;
    EXPECT_EQ(where.own, row.own) << row.master.name;
    EXPECT_EQ(where.notice, "") << row.master.name;
  }
}

TEST(ListenAddresses, OneNodeWithANameThatNobodyKnowsIsRefused) {
  try {
    (void)choose_listen_addresses(unknown("nowhere"), false);
    FAIL() << "nothing was thrown";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.code(), exit_code::kRendezvous);
    EXPECT_STREQ(error.what(),
                 "cannot resolve the master address nowhere: Host not found. Give an address of "
                 "this node, or leave --master-addr out.");
  }
}

TEST(ListenAddresses, SeveralNodesAreServedAtTheMasterAddressIfItIsOurs) {
  const auto local = choose_listen_addresses(
      {"localhost", false, true, {{"127.0.0.1", true}, {"::1", true}}, ""}, true);
  EXPECT_EQ(local.basic, kLoopback);
  EXPECT_EQ(local.own, kLoopback);
  const auto ours = choose_listen_addresses(
      name("a", {{"10.0.0.1", false, true}, {"10.9.0.1"}, {"127.0.1.1", true, true}}), true);
  EXPECT_EQ(ours.basic, kLoopback);
  EXPECT_THAT(ours.own, ElementsAre("10.0.0.1"));
  const auto another_loopback =
      choose_listen_addresses({"127.0.0.2", true, true, {{"127.0.0.2", true, true}}, ""}, true);
  EXPECT_EQ(another_loopback.basic, kLoopback);
  EXPECT_THAT(another_loopback.own, ElementsAre("127.0.0.2"));
  EXPECT_EQ(local.notice + ours.notice + another_loopback.notice, "");
}

// Case N8: others cannot reach the address of node 0.
TEST(ListenAddresses, N8_SeveralNodesAreServedEverywhereElseAndTheUserIsToldWhy) {
  struct Row {
    MasterAddress master;
    std::string why;
  };
  const std::vector<Row> rows{
      {unknown("nowhere"), "the master address nowhere has no address here: Host not found"},
      {name("a", {{"127.0.1.1", true}, {"::1", true}}),
       "the master address a stands for 127.0.1.1 here, where no other node can reach it (see "
       "/etc/hosts)"},
      {name("a", {{"10.9.0.1"}}), "the master address a (10.9.0.1) is not one of this node's"},
      {name("a", {{"127.0.1.1", true}, {"::2"}}),
       "the master address a (127.0.1.1) is not one of this node's"},
      {number("10.9.0.1", {{"10.9.0.1"}}), "the master address 10.9.0.1 is not one of this node's"},
  };
  for (const Row& row : rows) {
    const ListenAddresses where = choose_listen_addresses(row.master, true);
    EXPECT_EQ(where.basic, kEverywhere) << row.why;
    EXPECT_THAT(where.own, IsEmpty()) << row.why;
    EXPECT_EQ(where.notice, row.why + kInstead);
  }
}

}  // namespace
}  // namespace ddp::launcher
