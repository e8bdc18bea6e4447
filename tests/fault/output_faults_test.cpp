// What the workers print, and what stands in its way: floods, garbage, a full disk, a disk or a
// console that takes nothing. Rows O of CASES.md, and L7.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "tests/support/fake_node.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // that of a process which ends meanwhile cannot be read to its end
  return text.str();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// The sum of N over all "... N lines" in `lines`, which lose these.
std::size_t take_hidden(std::vector<std::string>& lines) {
  std::size_t hidden = 0;
  std::erase_if(lines, [&](const std::string& line) {
    const std::size_t at = line.find("... ");
    if (at == std::string::npos) return false;
    hidden += std::stoul(line.substr(at + 4));
    return true;
  });
  return hidden;
}

/// The most memory that a living process has had resident. Sanitizers have memory of their own:
/// nothing is bounded then.
std::size_t peak_bytes(pid_t pid) {
  if (kInstrumented) return 0;
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    std::size_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib << 10;
  }
  ADD_FAILURE() << "no VmHWM of " << pid;
  return 0;
}

constexpr std::size_t kAgentBytes = std::size_t{64} << 20;

class OutputFaults : public ProcessTest {
 protected:
  ~OutputFaults() override {
    if (fifo_ >= 0) ::close(fifo_);
  }
  [[nodiscard]] fs::path runs() const { return scratch() / "runs"; }
  /// A file of the only round of a job with --output runs().
  [[nodiscard]] fs::path log(const std::string& name) const {
    return runs() / "fake_worker/logs/round-0" / name;
  }
  /// Has the second round of a job find `prepare`'s work in the place of its log files: those of
  /// the first are opened before a test could do anything. The workers print their pids.
  void begin_second_round(Running& job,
                          std::size_t workers,
                          const std::function<void(const fs::path&)>& prepare) const {
    const auto have_told = [&](std::size_t pids) {
      return eventually(
          [&] {
            job.read_for(5ms);
            return count(job.out(), "] pid ") == pids;
          },
          kTestTimeout);
    };
    ASSERT_TRUE(have_told(workers)) << job.err();
    const fs::path round = runs() / "fake_worker/logs/round-1";
    fs::create_directories(round);
    prepare(round);
    send_signal(job.number_after("[0:0] pid "), SIGKILL);
    ASSERT_TRUE(have_told(2 * workers)) << job.err();
  }
  /// Returns the worker, whose log files lie on a disk that is stuck.
  [[nodiscard]] int begin_stuck_round(Running& job) {
    begin_second_round(job, 1, [this](const fs::path& round) {
      // A FIFO that is full and that nobody reads takes nothing, like a dead disk.
      ASSERT_EQ(::mkfifo((round / "rank-0.err").c_str(), 0600), 0);
      fifo_ = ::open((round / "rank-0.err").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
      ASSERT_GE(fifo_, 0);
      const std::string bytes(4096, 'x');
      while (::write(fifo_, bytes.data(), bytes.size()) > 0) {
      }
    });
    return std::stoi(job.out().substr(job.out().rfind("pid ") + 4));
  }
  /// SIGUSR1 to all workers whose script waits for it.
  void wake_workers() const {
    for (const std::string& process : alive()) {
      const bool is_launcher = process.find("ddp-launch") != std::string::npos;  // or its guard
      if (!is_launcher && process.find("wait USR1") != std::string::npos) {
        send_signal(std::stoi(process), SIGUSR1);
      }
    }
  }
  /// ddp-launch --output runs() FLAGS fake_worker VERBS, both split at blanks. A file holds at most
  /// so many blocks of the shell's `ulimit -f`; 0: any number.
  std::unique_ptr<Running> launch_logged(const std::string& flags,
                                         const std::string& verbs,
                                         int file_blocks = 0) {
    std::vector<std::string> arguments{DDP_LAUNCH, "--output", runs().string(), "--grace=2s"};
    if (file_blocks > 0) {
      const std::string limit = "ulimit -f " + std::to_string(file_blocks) + "; exec \"$@\"";
      arguments.insert(arguments.begin(), {"/bin/sh", "-c", limit, "sh"});
    }
    std::istringstream words(flags + " " + DDP_FAKE_WORKER + " " + verbs);
    for (std::string word; std::getline(words, word, ' ');) {
      if (!word.empty()) arguments.push_back(word);
    }
    return start(Command{.arguments = std::move(arguments), .ignored_signals = {SIGXFSZ}});
  }

 private:
  int fifo_ = -1;
};

TEST_F(OutputFaults, O1_AFloodIsWholeInTheFileAndLimitedOnTheConsole) {
  constexpr std::size_t kLines = 100000;
  const auto job = launch_logged("--console-limit=100",
                                 "lines " + std::to_string(kLines) + " text error done hold");
  ASSERT_TRUE(job->sees("done"));
  EXPECT_LE(peak_bytes(job->pid()), kAgentBytes);
  // The notice comes without another line: it is looked for once per second.
  EXPECT_TRUE(job->sees(" lines are in the log file only"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  const std::vector<std::string> logged = lines_of(read(log("rank-0.out")));
  ASSERT_EQ(logged.size(), kLines);
  for (std::size_t i = 0; i < kLines; ++i)
    ASSERT_EQ(logged[i], "text " + std::to_string(i));
  std::vector<std::string> shown = lines_of(job->out());
  const std::size_t hidden = take_hidden(shown);
  EXPECT_EQ(shown.size() + hidden, kLines);
  EXPECT_EQ(shown.front(), "[0:0] text 0");
  // 100 in each second, and no more seconds than it lived.
  const auto seconds = static_cast<std::size_t>(job->lived() / 1s) + 2;
  EXPECT_LE(shown.size(), 100 * seconds);
}

TEST_F(OutputFaults, O2_ManyBytesWithoutANewlineAreBounded) {
  constexpr std::size_t kBytes = 100000000;
  const auto job =
      launch_logged("--console-limit=5", "fill " + std::to_string(kBytes) + " error done hold");
  ASSERT_TRUE(job->sees("done"));
  EXPECT_LE(peak_bytes(job->pid()), kAgentBytes);
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_EQ(fs::file_size(log("rank-0.out")), kBytes);
}

TEST_F(OutputFaults, O2_TheConsoleIsCleanAndTheFileIsRaw) {
  const std::string odd = "10%\r\x1b[2J100%\x1b[31mred\a\xff";
  const auto job = launch({"--output", runs().string(), DDP_FAKE_WORKER, "print", odd});
  ASSERT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(job->out(), "[0:0] 100%\x1b[31mred?\xef\xbf\xbd\x1b[0m\n");
  EXPECT_EQ(read(log("rank-0.out")), odd + "\n");
}

TEST_F(OutputFaults, O2_ALongProgressBarIsSeenBeforeItEnds) {
  const auto job = launch_logged(
      "", "partial 10% partial \r20% error begun wait USR1 partial \r30% print . hold");
  ASSERT_TRUE(job->sees("[0:0] begun"));
  EXPECT_TRUE(job->sees("[0:0] 20%\n"));
  wake_workers();
  EXPECT_TRUE(job->sees("[0:0] 30%.\n"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_EQ(job->out(), "[0:0] 20%\n[0:0] 30%.\n");
  EXPECT_EQ(read(log("rank-0.out")), "10%\r20%\r30%.\n");
}

TEST_F(OutputFaults, O2_TheReportIsCleanToo) {
  const auto job = launch({DDP_FAKE_WORKER, "error", "\x1b[2Jlast words\a", "exit", "3"});
  ASSERT_EQ(job->wait(), 3);
  EXPECT_THAT(job->err(), HasSubstr("last lines of its stderr:\n    last words?\n"));
}

TEST_F(OutputFaults, O4_AFullDiskIsOneWarningAndTheConsoleGoesOn) {
  // A limit on the size of a file stands in for the full disk: write(2) fails in the middle.
  const auto job = launch_logged(
      "--nproc-per-node=3", "print first lines 200000 text print last exit 5", /*file_blocks=*/100);
  EXPECT_EQ(job->wait(), 5);
  EXPECT_EQ(count(job->err(), "File too large; the job goes on without it."), 1U);
  // Nothing is left out as "in the log file": it is not.
  EXPECT_THAT(job->out(), HasSubstr("first\n"));
  EXPECT_THAT(job->out(), Not(HasSubstr("log file only")));
}

TEST_F(OutputFaults, O4_AStuckDiskStopsNeitherTheConsoleNorTheEnd) {
  const auto job = launch_logged(
      "--max-restarts=1", "pid wait USR1 error into-the-fifo print still-here print and-here hold");
  send_signal(begin_stuck_round(*job), SIGUSR1);
  EXPECT_TRUE(job->sees("[0:0] into-the-fifo"));
  EXPECT_TRUE(job->sees("[0:0] and-here"));
  const auto begin = std::chrono::steady_clock::now();
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_THAT(job->err(), HasSubstr("rank-0.err has taken nothing for 3 s"));
}

TEST_F(OutputFaults, O4_AStuckDiskHoldsTheFloodNotTheAgent) {
  // What is queued for the disk is bounded, so the worker waits; it is stopped all the same.
  const auto job = launch_logged(
      "--max-restarts=1", "pid wait USR1 error x lines 200000 " + std::string(1000, 'y') + " hold");
  const int worker = begin_stuck_round(*job);
  send_signal(worker, SIGUSR1);
  std::size_t seen = 0;
  int still = 0;  // looks at which no line had come and the worker waited for its pipe
  const auto waits = [&] {
    job->read_for(5ms);
    const bool is_waiting =
        read("/proc/" + std::to_string(worker) + "/wchan").find("pipe") != std::string::npos;
    still = is_waiting && job->out().size() == seen ? still + 1 : 0;
    seen = job->out().size();
    return still == 50;
  };
  EXPECT_TRUE(eventually(waits, kTestTimeout));
  EXPECT_LE(peak_bytes(job->pid()), kAgentBytes);
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

// Two agents here, and a FIFO that is read slowly: like a disk that moves, but takes long. Node 1's
// workers are gone at once, their last lines are not; node 0 is not to take the node for lost.
TEST_F(OutputFaults, O4_ANodeWhoseDiskIsSlowIsWaitedForOnceItsWorkersAreGone) {
  constexpr std::size_t kFlooders = 32;  // a pipe of each is full when they are ended
  const std::string verbs =
      "round 0 [ on 0 [ wait USR1 exit 3 ] hold ] on 0 [ wait USR1 exit 5 ] "
      "lines 2000000 " +
      std::string(1000, 'y') + " hold";
  const std::string port = std::to_string(free_port());
  const auto launch_node = [&](int rank, std::size_t workers) {
    return launch_logged(
        "--nnodes=2 --max-restarts=1 --master-addr=127.0.0.1 --master-port=" + port +
            " --node-rank=" + std::to_string(rank) + " --nproc-per-node=" + std::to_string(workers),
        verbs);
  };
  const auto zero = launch_node(0, 1);
  const auto one = launch_node(1, kFlooders);
  const auto workers_that = [&](const std::function<bool(int)>& is_so) {
    std::size_t found = 0;
    for (const std::string& process : alive()) {
      const bool is_worker = process.find("ddp-launch") == std::string::npos;
      if (is_worker && is_so(std::stoi(process))) ++found;
    }
    zero->read_for(5ms);
    one->read_for(5ms);
    return found;
  };
  const auto any = [](int) { return true; };
  ASSERT_TRUE(eventually([&] { return workers_that(any) == kFlooders + 1; }, kTestTimeout));
  const fs::path round = runs() / "fake_worker/logs/round-1";
  fs::create_directories(round);
  ASSERT_EQ(::mkfifo((round / "rank-1.out").c_str(), 0600), 0);
  const int fifo = ::open((round / "rank-1.out").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(fifo, 0);
  for (std::size_t rank = 2; rank <= kFlooders; ++rank)  // one disk
    fs::create_hard_link(round / "rank-1.out", round / ("rank-" + std::to_string(rank) + ".out"));
  wake_workers();
  const auto waits_for_its_pipe = [](int pid) {
    return read("/proc/" + std::to_string(pid) + "/wchan").find("pipe") != std::string::npos;
  };
  ASSERT_TRUE(
      eventually([&] { return workers_that(waits_for_its_pipe) == kFlooders; }, kTestTimeout))
      << one->err();
  wake_workers();
  std::vector<char> block(64 << 10);
  const auto begin = std::chrono::steady_clock::now();
  auto last = begin;
  // Well below FileWriter::kStallWait, after which a file is given up, also when this test is late.
  std::chrono::milliseconds pause = 1200ms;
  while (state_of(one->pid()) != "Z" && std::chrono::steady_clock::now() - begin < 90s) {
    zero->read_for(5ms);
    one->read_for(5ms);
    if (zero->err().find("is slow to write") != std::string::npos) pause = 0ms;
    const auto now = std::chrono::steady_clock::now();
    if (now - last < pause) continue;
    if (::read(fifo, block.data(), block.size()) > 0) last = now;
  }
  EXPECT_EQ(one->wait(), 5) << one->err();
  EXPECT_EQ(zero->wait(), 5) << zero->err();
  EXPECT_THAT(zero->err(), HasSubstr("is slow to write their last lines; waiting for them."));
  EXPECT_THAT(zero->err(), Not(HasSubstr("is lost")));
  ::close(fifo);
}

TEST_F(OutputFaults, O4_NoRoomForALaterRoundIsAWarning) {
  const auto job =
      launch_logged("--nproc-per-node=2 --max-restarts=1", "pid wait USR1 print out exit 3");
  const auto stop_round = [&](std::size_t pids) {
    const auto all_wait = [&] {
      job->read_for(5ms);
      return count(job->out(), "pid ") == pids;
    };
    ASSERT_TRUE(eventually(all_wait, kTestTimeout));
    wake_workers();
  };
  ASSERT_TRUE(job->sees("pid "));
  std::ofstream(runs() / "fake_worker/logs/round-1") << "in the way";
  stop_round(2);
  stop_round(4);
  EXPECT_EQ(job->wait(), 3);
  EXPECT_EQ(count(job->err(), "ddp-launch: cannot use "), 1U);
  EXPECT_GE(count(job->out(), "out\n"), 2U);  // at least by anyone who failed first
}

TEST_F(OutputFaults, O5_LinesOf64WorkersAreWholeAndNoneIsLost) {
  constexpr int kWorkers = 64;
  constexpr std::size_t kLines = 10000;
  const auto job =
      launch_logged("--nproc-per-node=" + std::to_string(kWorkers),
                    "lines " + std::to_string(kLines) + " text-of-a-line error done hold");
  const auto are_done = [&] {
    job->read_for(20ms);
    return count(job->err(), "] done\n") == kWorkers;
  };
  ASSERT_TRUE(eventually(are_done, 120s));
  EXPECT_LE(peak_bytes(job->pid()), kAgentBytes);
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(60s), 143);
  std::vector<std::string> lines = lines_of(job->out());
  const std::size_t hidden = take_hidden(lines);
  EXPECT_EQ(lines.size() + hidden, kWorkers * kLines);
  std::map<std::string, std::size_t> next;
  for (const std::string& line : lines) {
    const std::size_t end = line.find("] ");
    ASSERT_NE(end, std::string::npos) << line;
    ASSERT_THAT(line.substr(end + 2), StartsWith("text-of-a-line "));
    const std::size_t number = std::stoul(line.substr(end + 17));
    ASSERT_EQ(line.substr(end + 17), std::to_string(number));  // nothing after it
    ASSERT_GE(number, next[line.substr(0, end)]) << line;      // in order
    next[line.substr(0, end)] = number + 1;
  }
  for (int rank = 0; rank < kWorkers; ++rank) {
    const auto logged = lines_of(read(log("rank-" + std::to_string(rank) + ".out")));
    ASSERT_EQ(logged.size(), kLines) << rank;
    for (std::size_t i = 0; i < kLines; ++i)
      ASSERT_EQ(logged[i], "text-of-a-line " + std::to_string(i));
  }
}

TEST_F(OutputFaults, AStoppedConsoleHoldsNoRankWithoutAFile) {
  constexpr std::size_t kLines = 20000;
  const auto job = launch_fakes(
      1, "lines " + std::to_string(kLines) + " " + std::string(1000, 'x') + " error done hold");
  job->read_stdout_by(0);
  EXPECT_TRUE(job->sees("[0:0] done"));  // far more than pipes and queue hold
  EXPECT_LE(peak_bytes(job->pid()), kAgentBytes);
  job->read_stdout_by(65536);
  EXPECT_TRUE(job->sees(" lines were dropped: the console takes nothing"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  std::vector<std::string> lines = lines_of(job->out());
  const std::size_t hidden = take_hidden(lines);
  EXPECT_EQ(lines.size() + hidden, kLines);
}

TEST_F(OutputFaults, AStoppedConsoleHoldsNoRankWithAFile) {
  constexpr std::size_t kLines = 20000;
  const std::string text(1000, 'x');
  const auto job =
      launch_logged("", "lines " + std::to_string(kLines) + " " + text + " error done hold");
  job->read_stdout_by(0);
  EXPECT_TRUE(job->sees("[0:0] done"));
  job->read_stdout_by(65536);
  EXPECT_TRUE(job->sees(" lines are in the log file only"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  std::vector<std::string> lines = lines_of(job->out());
  EXPECT_EQ(take_hidden(lines) + lines.size(), kLines);
  EXPECT_EQ(fs::file_size(log("rank-0.out")), read(log("rank-0.out")).size());
  EXPECT_EQ(lines_of(read(log("rank-0.out"))).back(), text + " 19999");
}

TEST_F(OutputFaults, L7_AClosedStdoutLeavesTheLogFilesWhole) {
  const auto job = launch_logged("--nproc-per-node=2", "print ready lines 20000 text error done");
  ASSERT_TRUE(job->sees("ready"));
  job->drop_stdout();
  EXPECT_EQ(job->wait(), 0);
  EXPECT_EQ(count(job->err(), "cannot write stdout: Broken pipe; the job goes on without it."), 1U);
  for (const char* const name : {"rank-0.out", "rank-1.out"}) {
    const auto lines = lines_of(read(log(name)));
    ASSERT_EQ(lines.size(), 20001U);
    EXPECT_EQ(lines.back(), "text 19999");
  }
}

TEST_F(OutputFaults, EveryRoundClosesItsFiles) {
  // Invariant I8: no descriptor more after many rounds.
  const auto job = launch_logged("--nproc-per-node=2 --max-restarts=20 --died-within=0s",
                                 "pid wait USR1 print x error x exit 3");
  std::map<int, std::ptrdiff_t> open;  // by round
  for (int round = 0; round <= 20; ++round) {
    const auto both_wait = [&] {
      job->read_for(5ms);
      const auto pids = 2U * static_cast<std::size_t>(round + 1);
      return count(job->out(), "pid ") == pids && job->out().ends_with('\n');
    };
    ASSERT_TRUE(eventually(both_wait, kTestTimeout)) << round;
    const fs::directory_iterator entries("/proc/" + std::to_string(job->pid()) + "/fd");
    open[round] = std::distance(begin(entries), end(entries));
    std::size_t at = std::string::npos;
    for (int i = 0; i < 2; ++i) {
      at = job->out().rfind("pid ", at) + 4;
      send_signal(std::stoi(job->out().substr(at)), SIGUSR1);
      at -= 5;
    }
  }
  EXPECT_EQ(job->wait(), 3);
  EXPECT_LE(open[20], open[2] + 4);  // the files of a round close a moment after it
}

}  // namespace
}  // namespace ddp::test
