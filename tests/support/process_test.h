// Tests with real processes: start a program, wait for what it prints, end it, and prove that
// nothing of it lives. Every process of a test inherits a marker variable; after each test no
// /proc/*/environ may hold it. A test never sleeps: it waits for a line or a state, with a
// deadline, and says what was seen instead.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/instrumented.h"
#include "tests/support/programs.h"
#include "tests/support/send_signal.h"

namespace ddp::test {

constexpr std::chrono::seconds kTestTimeout{
    20};  // of a loaded machine; bounds of promises are stated in the tests

/// The number in the test's own environment under this name: how often, or for how long.
int setting(const char* name, int otherwise);

struct Command {
  std::vector<std::string> arguments;  // [0] is the program
  std::map<std::string, std::string>
      environment{};  // laid over the test's own; an empty text unsets
  bool close_stdout = false;
  bool full_stderr = false;  // its pipe takes not one byte more, and nobody reads it
  std::vector<int> ignored_signals{};
};

/// A started program. Reads its two streams while it is waited for.
class Running {
 public:
  Running(const Command& command, const std::string& marker);
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();  // SIGKILL, if it is still there

  /// True once `text` has been printed on either stream.
  bool sees(const std::string& text, std::chrono::milliseconds limit = kTestTimeout);
  /// The number after `text`, as in "pid 17", on either stream. Errors: std::runtime_error, which
  /// ends the test, when it has not come whole within `limit`.
  int number_after(const std::string& text, std::chrono::milliseconds limit = kTestTimeout);
  /// Does nothing when it has ended.
  void signal(int signal) const;
  /// The exit code, or -n for signal n; -1000 when it had not ended within `limit`.
  int wait(std::chrono::milliseconds limit = kTestTimeout);
  /// Takes what it prints in the meantime.
  void read_for(std::chrono::milliseconds limit);
  /// From now on its stdout is read by so many bytes every 5 ms; 0: not at all.
  void read_stdout_by(std::size_t bytes) { streams_[0].bytes = bytes; }
  /// The reader of its stdout goes away.
  void drop_stdout();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& out() const { return streams_[0].text; }
  [[nodiscard]] const std::string& err() const { return streams_[1].text; }
  [[nodiscard]] std::chrono::milliseconds lived() const { return lived_; }
  /// The processor time that it took, once it has ended.
  [[nodiscard]] std::chrono::milliseconds busy() const { return busy_; }
  /// The most memory it had resident, once it has ended.
  [[nodiscard]] std::size_t peak_kib() const { return peak_kib_; }

 private:
  struct Stream {
    int fd = -1;
    std::string text;
    std::size_t bytes = kAll;  // of one look
    std::chrono::steady_clock::time_point next{};
  };
  static constexpr std::size_t kAll = 65536;
  void read_some(std::chrono::milliseconds limit);
  bool collect();

  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::milliseconds lived_{0};
  std::chrono::milliseconds busy_{0};
  std::size_t peak_kib_ = 0;
  Stream streams_[2];
};

/// Polls `condition` until it holds. False: it has not held within `limit`.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit);

/// "R", "S", "T", ... of a process, or "" when it is gone.
std::string state_of(pid_t pid);

/// Whether the process lives and is not stopped: it runs or sleeps.
bool lives_on(pid_t pid);

/// By SigBlk (proc(5)).
bool blocks_signal(pid_t pid, int signal);

/// The whole file, or "" when there is none.
std::string read_all(const std::filesystem::path& path);

/// How often `word` is in `text`.
std::size_t count(const std::string& text, const std::string& word);

/// A number of /proc/PID/status, as "VmRSS" in KiB.
std::size_t status_number(pid_t pid, const std::string& name);

/// Descriptors that a process has open.
std::size_t count_descriptors(pid_t pid);

/// Lines of `text`, without their newlines.
std::vector<std::string> lines_of(const std::string& text);

class ProcessTest : public testing::Test {
 protected:
  ProcessTest();
  ~ProcessTest() override;
  void TearDown() override;

  std::unique_ptr<Running> start(Command command);
  /// ddp-launch with these arguments.
  std::unique_ptr<Running> launch(std::vector<std::string> arguments);
  /// ddp-launch --nproc-per-node N fake_worker VERBS; the grace is 2 s, as in all fault tests.
  std::unique_ptr<Running> launch_fakes(int workers,
                                        const std::string& verbs,
                                        const std::vector<std::string>& flags = {});

  /// Living processes of this test, "pid command".
  [[nodiscard]] std::vector<std::string> alive() const;
  /// The guard of the one job that runs, once it has given itself its name, which may be after the
  /// workers' first lines. Errors: std::runtime_error when none comes.
  [[nodiscard]] pid_t find_guard() const;
  bool nothing_lives_within(std::chrono::milliseconds limit) const;

  /// The value of DDP_TEST_MARKER, for what is started in an environment of its own.
  [[nodiscard]] const std::string& marker() const { return marker_; }
  /// A directory of this test, removed afterwards.
  [[nodiscard]] const std::filesystem::path& scratch() const { return scratch_; }
  std::string write_file(const std::string& name, const std::string& text) const;

 private:
  std::string marker_;
  std::filesystem::path scratch_;
};

}  // namespace ddp::test
