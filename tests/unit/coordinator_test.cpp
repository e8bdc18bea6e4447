// What the coordinator reads before which step; what it decides then is tested with plan/job.
#include "launcher/run/coordinator.h"

#include <gmock/gmock.h>

#include <csignal>
#include <functional>

#include "launcher/os/file_writer.h"

namespace ddp::launcher {
namespace {

JobSpec spec_of(int max_restarts) {
  JobSpec spec;
  spec.entry = "train";
  spec.max_restarts = max_restarts;
  return spec;
}

Rendezvous alone() {
  Rendezvous rendezvous;
  rendezvous.own.host = "a";
  return rendezvous;
}

/// Node 0 and its own node, which is played by `take`.
struct CoordinatorFixture {
  explicit CoordinatorFixture(int max_restarts)
      : spec(spec_of(max_restarts)),
        coordinator(
            io,
            writer,
            console,
            spec,
            rendezvous,
            [this](const NodeCommand& command) {
              if (std::holds_alternative<StartRound>(command)) ++rounds;
              if (const auto* const over = std::get_if<EndJob>(&command)) end = *over;
              take(command);
              return true;
            },
            [] { return std::nullopt; },
            [](int) { return std::filesystem::path(); }) {}

  void run() {
    coordinator.start();
    io.run_for(std::chrono::seconds(20));
  }
  /// Its only worker, and with it the round.
  void fail_worker(int round) {
    WorkerReport report;
    report.ending.status = ExitStatus{7, 0, false};
    coordinator.send_event(WorkerEnded{round, report});
    GroupEnded ended;
    ended.round = round;
    ended.workers = {report};
    coordinator.send_event(ended);
  }

  asio::io_context io{1};
  FileWriter writer;
  Console console{writer, log::Level::error, false};
  Rendezvous rendezvous = alone();
  JobSpec spec;
  std::function<void(const NodeCommand&)> take = [](const NodeCommand&) {};
  int rounds = 0;
  std::optional<EndJob> end;
  Coordinator coordinator;
};

TEST(Coordinator, BeginsTheNextRoundAfterAFailedOne) {
  CoordinatorFixture fixture(1);
  fixture.take = [&fixture](const NodeCommand& command) {
    const auto* const start = std::get_if<StartRound>(&command);
    if (start != nullptr) fixture.fail_worker(start->round);
  };
  fixture.run();
  EXPECT_EQ(fixture.rounds, 2);
  ASSERT_TRUE(fixture.end);
  EXPECT_EQ(fixture.end->exit_code, 7);
}

TEST(Coordinator, AnEventAfterTheLastReportOfARoundCountsBeforeTheNextOne) {
  CoordinatorFixture fixture(1);
  fixture.take = [&fixture](const NodeCommand& command) {
    const auto* const start = std::get_if<StartRound>(&command);
    if (start == nullptr) return;
    fixture.fail_worker(start->round);
    fixture.coordinator.send_event(StopRequested{SIGINT});
  };
  fixture.run();
  EXPECT_EQ(fixture.rounds, 1) << "a round began in vain";
  ASSERT_TRUE(fixture.end);
  EXPECT_EQ(fixture.end->exit_code, 130);
}

}  // namespace
}  // namespace ddp::launcher
