#include "launcher/plan/hosts/hosts_end.h"

#include <gmock/gmock.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using HostsAction = HostsEnd::Action;

const HostsEnd::Time kHostsBegin{1000s};
constexpr ExitStatus kKilled{0, SIGKILL, false};

constexpr ExitStatus left_with(int code) {
  return ExitStatus{code, 0, false};
}

HostsEnd with_agents(std::size_t hosts) {
  HostsEnd end(hosts, 40s);
  for (std::size_t host = 0; host < hosts; ++host)
    end.note_agent(host);
  return end;
}

TEST(HostsEnd, ExitCodeIsThatOfTheAgents) {
  HostsEnd end = with_agents(2);
  EXPECT_EQ(end.deadline(), std::nullopt) << "a job takes what it takes";
  EXPECT_EQ(end.note_connection_ended(1, left_with(7), kHostsBegin), HostsAction::wait);
  EXPECT_FALSE(end.is_over());
  EXPECT_EQ(end.note_connection_ended(0, left_with(7), kHostsBegin), HostsAction::wait);
  EXPECT_TRUE(end.is_over());
  EXPECT_EQ(end.exit_code(), 7);
  EXPECT_THAT(end.cut_off(), IsEmpty());
}

TEST(HostsEnd, AgentsThatDoNotEndWithTheFirstAreStopped) {
  HostsEnd end = with_agents(3);
  end.note_connection_ended(0, left_with(0), kHostsBegin);
  EXPECT_EQ(end.deadline(), kHostsBegin + 40s);
  end.note_connection_ended(1, left_with(0), kHostsBegin + 9s);
  EXPECT_EQ(end.deadline(), kHostsBegin + 40s) << "since the first";
  EXPECT_EQ(end.note_deadline(), HostsAction::stop_agents);
  EXPECT_EQ(end.deadline(), std::nullopt);
}

TEST(HostsEnd, AStopRequestStopsASecondKillsAThirdCuts) {
  HostsEnd end = with_agents(1);
  EXPECT_EQ(end.note_stop_request(kHostsBegin), HostsAction::stop_agents);
  EXPECT_EQ(end.note_stop_request(kHostsBegin + 50ms), HostsAction::wait)
      << "the same one, delivered twice";
  EXPECT_EQ(end.note_stop_request(kHostsBegin + 1s), HostsAction::kill_agents);
  EXPECT_EQ(end.note_stop_request(kHostsBegin + 2s), HostsAction::cut_connections);
  EXPECT_EQ(end.note_stop_request(kHostsBegin + 3s), HostsAction::cut_connections);
}

TEST(HostsEnd, AHostWithoutAnAgentEndsTheJob) {
  struct Row {
    ExitStatus status;
    int exit_code;
  };
  for (const Row& row : {Row{left_with(127), 127},
                         {left_with(2), 2},
                         {left_with(0), 202},
                         {left_with(255), 202},
                         {kKilled, 202}}) {
    HostsEnd end(2, 40s);
    end.note_agent(0);
    EXPECT_EQ(end.note_connection_ended(1, row.status, kHostsBegin), HostsAction::stop_agents);
    EXPECT_EQ(end.note_connection_ended(0, left_with(143), kHostsBegin + 1s), HostsAction::wait);
    EXPECT_EQ(end.exit_code(), row.exit_code);
    EXPECT_THAT(end.cut_off(), IsEmpty()) << "that was said";
  }
  EXPECT_TRUE(HostsEnd::is_reached(left_with(127)));
  EXPECT_FALSE(HostsEnd::is_reached(left_with(255)));
}

TEST(HostsEnd, TheFirstHostWithoutAnAgentGivesTheCode) {
  HostsEnd end(2, 40s);
  end.note_connection_ended(1, left_with(127), kHostsBegin);
  end.note_connection_ended(0, left_with(255), kHostsBegin);
  EXPECT_EQ(end.exit_code(), 127);
}

TEST(HostsEnd, AHostWithoutAnAgentIsNoFailureAfterAStopRequest) {
  HostsEnd end(1, 40s);
  end.note_stop_request(kHostsBegin);
  EXPECT_EQ(end.note_connection_ended(0, left_with(255), kHostsBegin), HostsAction::wait);
  EXPECT_EQ(end.exit_code(), 143);
}

TEST(HostsEnd, HostsThatWereCutOffAreNamedWhenAnotherHasReportedTheEnd) {
  HostsEnd end = with_agents(3);
  end.note_connection_ended(0, left_with(255), kHostsBegin);
  end.note_connection_ended(1, left_with(201), kHostsBegin);
  end.note_connection_ended(2, kKilled, kHostsBegin);
  EXPECT_EQ(end.exit_code(), 201);
  EXPECT_THAT(end.cut_off(), ElementsAre(0, 2));
}

TEST(HostsEnd, CutOffConnectionsGiveCode255AndNoNames) {
  HostsEnd end = with_agents(1);
  end.note_connection_ended(0, left_with(255), kHostsBegin);
  EXPECT_EQ(end.exit_code(), 255);
  EXPECT_THAT(end.cut_off(), IsEmpty());
}

}  // namespace
}  // namespace ddp::launcher
