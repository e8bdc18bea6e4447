#include "launcher/plan/hosts/hosts_end.h"

#include <gmock/gmock.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using Step = HostsEnd::Step;

const HostsEnd::Time kBegin{1000s};
constexpr ExitStatus kKilled{0, SIGKILL, false};

constexpr ExitStatus code(int code) {
  return ExitStatus{code, 0, false};
}

HostsEnd with_agents(std::size_t hosts) {
  HostsEnd end(hosts, 40s);
  for (std::size_t host = 0; host < hosts; ++host)
    end.note_agent(host);
  return end;
}

TEST(HostsEnd, OfAgentsThatEndByThemselvesHasTheirCode) {
  HostsEnd end = with_agents(2);
  EXPECT_EQ(end.deadline(), std::nullopt) << "a job takes what it takes";
  EXPECT_EQ(end.note_connection_ended(1, code(7), kBegin), Step::wait);
  EXPECT_FALSE(end.is_over());
  EXPECT_EQ(end.note_connection_ended(0, code(7), kBegin), Step::wait);
  EXPECT_TRUE(end.is_over());
  EXPECT_EQ(end.exit_code(), 7);
  EXPECT_THAT(end.cut_off(), IsEmpty());
}

TEST(HostsEnd, AgentsThatDoNotEndWithTheFirstAreStopped) {
  HostsEnd end = with_agents(3);
  end.note_connection_ended(0, code(0), kBegin);
  EXPECT_EQ(end.deadline(), kBegin + 40s);
  end.note_connection_ended(1, code(0), kBegin + 9s);
  EXPECT_EQ(end.deadline(), kBegin + 40s) << "since the first";
  EXPECT_EQ(end.note_deadline(), Step::stop_agents);
  EXPECT_EQ(end.deadline(), std::nullopt);
}

TEST(HostsEnd, AStopRequestStopsASecondKillsAThirdCuts) {
  HostsEnd end = with_agents(1);
  EXPECT_EQ(end.note_stop_request(kBegin), Step::stop_agents);
  EXPECT_EQ(end.note_stop_request(kBegin + 50ms), Step::wait) << "the same one, delivered twice";
  EXPECT_EQ(end.note_stop_request(kBegin + 1s), Step::kill_agents);
  EXPECT_EQ(end.note_stop_request(kBegin + 2s), Step::cut_connections);
  EXPECT_EQ(end.note_stop_request(kBegin + 3s), Step::cut_connections);
}

TEST(HostsEnd, AHostWithoutAnAgentEndsTheJob) {
  struct Row {
    ExitStatus status;
    int exit_code;
  };
  for (const Row& row :
       {Row{code(127), 127}, {code(2), 2}, {code(0), 202}, {code(255), 202}, {kKilled, 202}}) {
    HostsEnd end(2, 40s);
    end.note_agent(0);
    EXPECT_EQ(end.note_connection_ended(1, row.status, kBegin), Step::stop_agents);
    EXPECT_EQ(end.note_connection_ended(0, code(143), kBegin + 1s), Step::wait);
    EXPECT_EQ(end.exit_code(), row.exit_code);
    EXPECT_THAT(end.cut_off(), IsEmpty()) << "that was said";
  }
  EXPECT_TRUE(HostsEnd::is_reached(code(127)));
  EXPECT_FALSE(HostsEnd::is_reached(code(255)));
}

TEST(HostsEnd, TheFirstHostWithoutAnAgentGivesTheCode) {
  HostsEnd end(2, 40s);
  end.note_connection_ended(1, code(127), kBegin);
  end.note_connection_ended(0, code(255), kBegin);
  EXPECT_EQ(end.exit_code(), 127);
}

TEST(HostsEnd, AHostWithoutAnAgentIsNoFailureAfterAStopRequest) {
  HostsEnd end(1, 40s);
  end.note_stop_request(kBegin);
  EXPECT_EQ(end.note_connection_ended(0, code(255), kBegin), Step::wait);
  EXPECT_EQ(end.exit_code(), 143);
}

TEST(HostsEnd, WhoWasCutOffIsNamedWhereAnotherHasToldTheEnd) {
  HostsEnd end = with_agents(3);
  end.note_connection_ended(0, code(255), kBegin);
  end.note_connection_ended(1, code(201), kBegin);
  end.note_connection_ended(2, kKilled, kBegin);
  EXPECT_EQ(end.exit_code(), 201);
  EXPECT_THAT(end.cut_off(), ElementsAre(0, 2));
}

TEST(HostsEnd, OfConnectionsThatWereAllCutOffNothingIsKnown) {
  HostsEnd end = with_agents(1);
  end.note_connection_ended(0, code(255), kBegin);
  EXPECT_EQ(end.exit_code(), 255);
  EXPECT_THAT(end.cut_off(), IsEmpty());
}

}  // namespace
}  // namespace ddp::launcher
