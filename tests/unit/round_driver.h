// A round that tests tell of event after event.
#pragma once

#include <gmock/gmock.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/round/round.h"

namespace ddp::launcher {

inline const Round::Time kBegin{std::chrono::seconds(1000)};

inline ExitStatus code(int value) {
  return ExitStatus{value, 0, false};
}
inline ExitStatus killed_by(int signal) {
  return ExitStatus{0, signal, false};
}

inline Round::Config usual_config() {
  Round::Config config;
  config.grace = std::chrono::seconds(30);
  config.watch.hang_timeout = std::chrono::seconds(5);
  return config;
}

inline std::vector<Round::Node> nodes_of(const std::vector<std::size_t>& workers) {
  std::vector<Round::Node> nodes;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    nodes.push_back(
        Round::Node{name, i == 0 ? "" : "10.0.0." + std::to_string(i), workers[i], false});
  }
  return nodes;
}

inline Ending ended(int rank, std::chrono::nanoseconds at, ExitStatus status) {
  Ending ending;
  ending.rank = rank;
  ending.at = at;
  ending.status = status;
  return ending;
}
inline Ending stopped(Ending ending) {
  ending.stop_sent = true;
  return ending;
}
inline Ending with_page(Ending ending, Phase phase) {
  ending.opened_page = true;
  ending.phase = phase;
  return ending;
}

inline GroupEnded group_ended(const std::vector<Ending>& endings) {
  GroupEnded end;
  for (const Ending& ending : endings) {
    WorkerReport report;
    report.ending = ending;
    report.pid = 100 + ending.rank;
    end.workers.push_back(report);
  }
  return end;
}

inline WorkerEnded exited(const Ending& ending) {
  WorkerEnded event;
  event.worker.pid = 100 + ending.rank;
  event.worker.ending = ending;
  return event;
}

/// A round of two nodes with two workers each, told of event after event.
struct RoundDriver {
  explicit RoundDriver(const Round::Config& config = usual_config(),
                       const std::vector<std::size_t>& workers = {2, 2})
      : round(config, nodes_of(workers), kBegin) {}
  explicit RoundDriver(std::vector<Round::Node> nodes)
      : round(usual_config(), std::move(nodes), kBegin) {}

  void exit(int node, const Ending& ending) {
    round.note_worker_ended(node, exited(ending), kBegin + ending.at);
  }
  void end(int node, const std::vector<Ending>& endings) {
    round.note_group_ended(node, group_ended(endings), kBegin + std::chrono::seconds(60));
  }
  void fail(int node, int code, const std::string& text) {
    round.note_agent_failed(node, AgentFailed{0, code, text}, kBegin + std::chrono::seconds(1));
  }
  void lose(int node, std::chrono::nanoseconds heard) {
    round.note_node_lost(
        node, "silent for 5.1 s", kBegin + heard, kBegin + heard + std::chrono::seconds(5));
  }
  void stop(int signal, std::chrono::nanoseconds at = std::chrono::seconds(1), int id = 0) {
    round.note_stop_request(id, id == 0 ? "" : " at node 1 (b)", signal, kBegin + at);
  }
  /// A rank is stopped while the others wait for it: the watchdog ends the round at 6 s or so.
  void hang(int rank) {
    start_groups();
    hold_up(rank);
    EXPECT_TRUE(round.is_ending());
  }
  void start_groups() {
    for (int node = 0; node < round.nodes(); ++node)
      round.note_group_started(node, GroupStarted());
  }
  void hold_up(int rank, std::chrono::seconds since = std::chrono::seconds(1)) {
    for (hung_at = since; !round.is_ending() && hung_at < since + std::chrono::seconds(60);
         hung_at += std::chrono::seconds(1)) {
      std::vector<WorkerSample> samples(round.workers().size());
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const bool hangs = static_cast<int>(i) == rank;
        samples[i].rank = static_cast<int>(i);
        samples[i].has_page = true;
        samples[i].phase = Phase::training;
        samples[i].in_collective = !hangs;
        samples[i].step = hangs ? 4 : 5;
        samples[i].activity.state = 'S';
      }
      round.note_samples(samples, kBegin + hung_at);
    }
    hung_at -= std::chrono::seconds(1);
  }
  std::vector<NodeCommand> commands() {
    std::vector<NodeCommand> commands;
    for (const Round::Action& action : round.take_actions()) {
      if (const auto* const command = std::get_if<Round::CommandNodes>(&action)) {
        commands.push_back(command->command);
      }
    }
    return commands;
  }
  EndRound end_command() {
    const std::vector<NodeCommand> all = commands();
    EXPECT_THAT(all, testing::SizeIs(1));
    return all.empty() ? EndRound() : std::get<EndRound>(all.back());
  }
  RoundResult result() {
    EXPECT_TRUE(round.is_over());
    return round.conclude(kBegin + std::chrono::seconds(61), true);
  }

  Round round;
  std::chrono::nanoseconds hung_at{0};
};

inline std::vector<Ending> all_stopped(const std::vector<int>& ranks,
                                       std::chrono::nanoseconds at = std::chrono::seconds(20)) {
  std::vector<Ending> endings;
  for (const int rank : ranks)
    endings.push_back(stopped(ended(rank, at, killed_by(SIGTERM))));
  return endings;
}

}  // namespace ddp::launcher
