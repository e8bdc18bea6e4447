// The system refuses to watch what has just been started: an error in the middle of a start. The
// refusal is real: the loop's epoll descriptor is replaced by one that is not.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "common/error.h"
#include "launcher/os/log_mux.h"
#include "launcher/os/process.h"
#include "launcher/run/agent.h"
#include "launcher/run/final_report.h"
#include "launcher/run/load_job.h"
#include "tests/support/process_test.h"

namespace ddp::launcher {
namespace {

using testing::HasSubstr;

/// Every epoll descriptor of this process answers EINVAL from now on.
void break_epoll() {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target == "anon_inode:[eventpoll]")
      ::dup3(null, std::stoi(entry.path().filename().string()), O_CLOEXEC);
  }
  ::close(null);
}

class LauncherRefusal : public test::ProcessTest {
 protected:
  [[nodiscard]] Environment environment() const {
    Environment environment = read_environment();
    environment["DDP_TEST_MARKER"] = marker();
    environment["XDG_RUNTIME_DIR"] = scratch().string();
    return environment;
  }
};

TEST_F(LauncherRefusal, AWorkerThatCannotBeWatchedIsTakenBack) {
  asio::io_context io(1);
  ProcessSpec spec;
  spec.label = "rank 0";
  spec.executable = DDP_FAKE_WORKER;
  spec.arguments = {DDP_FAKE_WORKER, "hold"};
  spec.environment = environment();
  spec.stdout_fd = STDOUT_FILENO;
  spec.stderr_fd = STDERR_FILENO;
  Process good(io, spec);
  // A child that borrows memory gives it back a moment before its new environment can be read.
  EXPECT_TRUE(test::eventually([this] { return alive().size() == 1; }, test::kTestTimeout));
  good.signal(SIGKILL);
  break_epoll();
  try {
    const Process refused(io, spec);
    FAIL() << "epoll_ctl was not refused";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot watch epoll_ctl, rank 0: "));
  }
  EXPECT_TRUE(nothing_lives_within(test::kTestTimeout));
}

TEST_F(LauncherRefusal, ALogPipeThatCannotBeWatchedLeavesNoDescriptor) {
  asio::io_context io(1);
  FileWriter writer;
  const JobSpec spec;
  LogMux mux(io, writer, spec);
  const LogStream::Route route;
  const LogStream good(io, mux, route, "rank 0");
  break_epoll();
  const auto count = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  const auto before = count();
  EXPECT_THROW(LogStream(io, mux, route, "rank 0"), SystemError);
  EXPECT_EQ(count(), before);
}

TEST_F(LauncherRefusal, AnErrorAfterTheFirstWorkerIsAVerdict) {
  const Options options = parse_options(
      {"--nproc-per-node=2", "--output", (scratch() / "runs").string(), DDP_FAKE_WORKER, "hold"},
      environment());
  const JobSpec spec = load_job(options, environment(), {});
  asio::io_context io(1);
  Rendezvous rendezvous = hold_rendezvous(io, spec);
  const auto choose = [&](int) { return scratch() / "runs"; };
  Agent agent(io, spec, rendezvous, choose, scratch(), nullptr, log::Level::info);
  break_epoll();
  const EndJob end = agent.run();
  EXPECT_EQ(end.exit_code, exit_code::kInternal);
  EXPECT_THAT(end.report, HasSubstr("epoll_ctl"));
  const OwnedDir runs = OwnedDir::require(scratch() / "runs");
  const RecordPlaces places{nullptr, &runs};
  EXPECT_EQ(give_final_report(end, spec, true, places, environment(), agent.console()), 125);
  std::ifstream file(scratch() / "runs/result.json");
  const std::string result(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(result, HasSubstr("\"state\":\"failed\",\"exit_code\":125"));
  EXPECT_THAT(result, HasSubstr("\"decided_by\":\"launcher\""));
}

}  // namespace
}  // namespace ddp::launcher
