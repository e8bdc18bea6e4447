// The launcher is killed or stopped at any moment: row L1 and the one-node part of L4 of the list
// of faults. DDP_KILLS sets how often it is killed, DDP_STOP_SECONDS how long it is stopped.
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "common/node/environment.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

class Kill : public ProcessTest {
 protected:
  /// Until nothing of this test lives any more.
  milliseconds time_to_silence() const {
    const auto begin = steady_clock::now();
    EXPECT_TRUE(nothing_lives_within(5s)) << testing::PrintToString(alive());
    return std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  }
};

// Every worker has a child, a child in a session of its own and a daemon; most ignore SIGTERM; the
// rounds are short, so that a random moment is before the start, in the middle of it, in a running
// round, in its teardown or between two rounds.
TEST_F(Kill, L1_AtWhateverMomentTheLauncherIsKilledNothingOfTheJobIsLeft) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> delay_us(0, 60000);
  milliseconds worst(0);
  const int kills = setting("DDP_KILLS", 25);
  for (int i = 0; i < kills; ++i) {
    const auto job =
        launch_fakes(4,
                     "spawn [ ignore TERM hold ] lose [ ignore TERM hold ] "
                     "lose [ lose [ hold ] ] on 2 [ sleep 0.01 exit 7 ] hold",
                     {"--max-restarts", "1000", "--died-within", "0s", "--grace", "1s"});
    job->read_for(milliseconds(delay_us(random) / 1000));
    job->signal(SIGKILL);
    EXPECT_EQ(job->wait(), -SIGKILL);
    worst = std::max(worst, time_to_silence());
  }
  RecordProperty("worst_ms", static_cast<int>(worst.count()));
  std::cout << kills << " kills, seed " << seed << ", the slowest was silent after "
            << worst.count() << " ms" << std::endl;
  EXPECT_LT(worst, 2s);
}

TEST_F(Kill, L4_AStoppedLauncherGoesOnAsIfNothingHadBeen) {
  const auto job = launch_fakes(2, "on 0 [ pid ] lines 3 before wait USR1 lines 3 after");
  ASSERT_TRUE(job->sees("[0:0] before 2") && job->sees("[0:1] before 2"));
  const pid_t worker = job->number_after("[0:0] pid ");
  job->signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(job->pid()) == "T"; }, kTestTimeout));
  job->read_for(std::chrono::seconds(setting("DDP_STOP_SECONDS", 3)));
  EXPECT_TRUE(lives_on(worker));  // it lives, and it was not stopped
  job->signal(SIGCONT);
  for (const std::string& line : alive()) {
    if (line.find("fake_worker") != std::string::npos &&
        line.find("ddp-launch") == std::string::npos)
      send_signal(std::stoi(line), SIGUSR1);
  }
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_TRUE(job->sees("[0:0] after 2") && job->sees("[0:1] after 2"));
}

/// A terminal with the launcher in its foreground group, as a shell starts it.
class Terminal {
 public:
  Terminal(const std::vector<std::string>& arguments, const std::string& marker) {
    std::vector<std::string> words = arguments;
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      ::setenv("DDP_TEST_MARKER", marker.c_str(), 1);
      ::execv(argv[0], argv.data());
      ::raise(SIGKILL);
    }
    if (pid_ < 0) throw std::runtime_error("forkpty");
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    send_signal(pid_, SIGKILL);
    ::close(fd_);
  }

  void type(char key) const { EXPECT_EQ(::write(fd_, &key, 1), 1); }
  bool sees(const std::string& wanted) {
    return eventually(
        [&] {
          char piece[4096];
          pollfd entry{fd_, POLLIN, 0};
          if (::poll(&entry, 1, 0) > 0) {
            const ssize_t got = ::read(fd_, piece, sizeof piece);
            if (got > 0) text_.append(piece, static_cast<std::size_t>(got));
          }
          return text_.find(wanted) != std::string::npos;
        },
        kTestTimeout);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string text_;
};

TEST_F(Kill, L4_CtrlZInATerminalAndFgGoOnAsIfNothingHadBeen) {
  // An interactive shell does the job control: Ctrl-Z stops the launcher, `fg` continues it.
  Terminal terminal({"/bin/bash", "--norc", "--noprofile", "-i"}, marker());
  const auto enter = [&](const std::string& line) {
    for (const char key : line + "\n")
      terminal.type(key);
  };
  enter(std::string("PS1=; NO_COLOR=1 ") + DDP_LAUNCH + " --nproc-per-node 2 " + DDP_FAKE_WORKER +
        " print ready wait USR1 print done; echo code=$?");
  ASSERT_TRUE(terminal.sees("[0:0] ready") && terminal.sees("[0:1] ready")) << terminal.text();
  terminal.type('\x1a');
  ASSERT_TRUE(terminal.sees("Stopped")) << terminal.text();
  pid_t launcher = 0;
  std::vector<pid_t> workers;
  for (const std::string& line : alive()) {
    if (line.find("--nproc-per-node") == std::string::npos) {
      if (line.find("fake_worker print") != std::string::npos) workers.push_back(std::stoi(line));
    } else if (state_of(std::stoi(line)) == "T") {
      launcher = std::stoi(line);
    }
  }
  EXPECT_GT(launcher, 0) << testing::PrintToString(alive());
  ASSERT_EQ(workers.size(), 2U) << testing::PrintToString(alive());
  for (const pid_t worker : workers)
    EXPECT_TRUE(lives_on(worker));  // Ctrl-Z stops the launcher alone
  enter("fg");
  ASSERT_TRUE(eventually([&] { return state_of(launcher) != "T"; }, kTestTimeout));
  for (const pid_t worker : workers)
    send_signal(worker, SIGUSR1);
  EXPECT_TRUE(terminal.sees("[0:0] done") && terminal.sees("[0:1] done")) << terminal.text();
  enter("echo ended=$?; exit");
  EXPECT_TRUE(terminal.sees("ended=0")) << terminal.text();
  EXPECT_TRUE(nothing_lives_within(kTestTimeout));  // the shell is on its way
}

}  // namespace
}  // namespace ddp::test
