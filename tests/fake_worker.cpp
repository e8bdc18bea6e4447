// A worker for tests: a script of verbs on its command line, each of which does one thing. A test
// reads as this script.
//   print TEXT         a line on stdout
//   error TEXT         a line on stderr
//   partial TEXT       no newline
//   lines N TEXT       N lines on stdout
//   fill N             N bytes on stdout
//   pid                "pid N" on stdout
//   environment        all variables, sorted
//   exit C             leave
//   raise SIG          die, or stop, by it
//   ignore SIG         from now on
//   catch SIG          from now on: "caught SIG" on stdout when it comes
//   wait SIG           until it comes
//   hold               wait for ever
//   sleep T            seconds
//   disk               sleep for ever as for a disk: in state D, which a child in a vfork(2) holds
//   session            leave session and group
//   progress STEP      open and set the page
//   collective         the page says that it is inside of one
//   train N T          N steps of T seconds each, and writes the page after each; ten epochs
//   steps N T          the same, of 2N steps in two epochs
//   checkpoint STEP    the page tells of this checkpoint
//   finish             phase finished
//   reason             "reason N" on stdout: why the page says that we are to stop
//   message TEXT       write the error file
//   on RANK [ VERBS ]  only this rank
//   round N [ VERBS ]  only in this round
//   spawn [ VERBS ]    a grandchild that does them, and ends
//   lose [ VERBS ]     like spawn, in a session of its own and with init (or a subreaper) as
//                      parent: a daemon
//   bomb               processes that start processes, for ever
//   churn N            N processes, 40 at a time; "hit K of N" on stdout: so many were ended by
//                      somebody else
//   FILE.yaml ...      print the arguments, one line, and end
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "common/node/environment.h"
#include "common/progress/progress_page.h"
#include "tests/support/send_signal.h"

namespace {

using Words = std::vector<std::string>;

const ddp::Environment kEnvironment = ddp::read_environment();
std::optional<ddp::MappedProgressPage> page;

std::string variable(const std::string& name) {
  return ddp::find_variable(kEnvironment, name).value_or("");
}

int signal_of(const std::string& name) {
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    if (::sigabbrev_np(signal) != nullptr && name == ::sigabbrev_np(signal)) return signal;
  }
  std::cerr << "fake_worker: no such signal: " << name << std::endl;
  ::_exit(2);
}

ddp::ProgressPage& open_page() {
  if (!page) {
    page = ddp::MappedProgressPage::open(std::stoi(variable("DDP_PROGRESS_FD")));
    (*page)->saves_on_stop = 1;  // as ddp-worker does
  }
  return **page;
}

/// Of `planned` steps in `epochs`: 64 images a step, a falling loss, a checkpoint and an evaluation
/// every 20 steps.
void train(long steps, double seconds, long planned, long epochs) {
  ddp::ProgressPage& progress = open_page();
  progress.phase = ddp::Phase::training;
  progress.steps_total = planned;
  for (long step = progress.step + 1; step <= steps; ++step) {
    ::usleep(static_cast<useconds_t>(seconds * 1e6));
    progress.epoch = 1 + (step - 1) * epochs / planned;
    progress.loss = 2.3 / (1 + 0.1 * static_cast<double>(step)) + 0.05;
    progress.lr = 0.1 * (1 - static_cast<double>(step) / static_cast<double>(planned));
    progress.samples = 64 * step;
    progress.data_wait_ns = progress.data_wait_ns + static_cast<long>(seconds * 1e8);  // a tenth
    progress.device_bytes = 256L << 20;
    if (step % 20 == 0) progress.checkpoint_step = step;
    if (step % 20 == 0) progress.accuracy = 1 - 1 / (1 + 0.1 * static_cast<double>(step));
    progress.step = step;
    ddp::touch(progress);
  }
}

/// One write, so that a second signal that comes meanwhile does not land inside the line.
extern "C" void say_caught(int signal) {
  char line[32] = "caught ";
  ::strncat(line, ::sigabbrev_np(signal), sizeof line - 9);
  ::strcat(line, "\n");
  if (::write(STDOUT_FILENO, line, ::strlen(line)) < 0) ::_exit(2);
}

void wait_for(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  int got = 0;
  ::sigwait(&set, &got);
}

/// A signal that a later `wait` names must not kill before: so all of them are blocked from the
/// start.
void block_awaited(const Words& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "wait") continue;
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, signal_of(words[i + 1]));
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
  }
}

class Script {
 public:
  explicit Script(Words words) : words_(std::move(words)) {}

  void run() {
    while (next_ < words_.size())
      step(take());
  }

 private:
  std::string take() {
    if (next_ >= words_.size()) {
      std::cerr << "fake_worker: the script ends too early" << std::endl;
      ::_exit(2);
    }
    return words_[next_++];
  }

  /// The words between the brackets that follow.
  Words take_block() {
    Words block;
    take();  // [
    for (int depth = 1; depth > 0;) {
      const std::string word = take();
      depth += word == "[" ? 1 : word == "]" ? -1 : 0;
      if (depth > 0) block.push_back(word);
    }
    return block;
  }

  void spawn(bool lost) {
    const Words block = take_block();
    if (::fork() != 0) return;
    if (lost) {
      ::setsid();
      if (::fork() != 0) ::_exit(0);
    }
    Script(block).run();
    std::cout << std::flush;
    ::_exit(0);
  }

  /// Each waits for SIGUSR2; nobody else is to send it anything.
  static void churn(int count) {
    constexpr std::size_t kAtATime = 40;
    std::deque<pid_t> started;
    int hit = 0;
    for (int left = count; left > 0 || !started.empty();) {
      const pid_t pid = left > 0 && started.size() < kAtATime ? ::fork() : -1;
      if (pid == 0) {
        while (true)
          ::pause();
      }
      if (pid > 0) {
        started.push_back(pid);
        --left;
        continue;
      }
      if (started.empty()) continue;  // no pid is free
      int status = 0;
      ddp::test::send_signal(started.front(), SIGUSR2);
      ::waitpid(started.front(), &status, 0);
      hit += WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2 ? 0 : 1;
      started.pop_front();
    }
    std::cout << "hit " << hit << " of " << count << std::endl;
  }

  void step(const std::string& verb) {
    if (verb == "print") {
      std::cout << take() << std::endl;
    } else if (verb == "error") {
      std::cerr << take() << std::endl;
    } else if (verb == "partial") {
      std::cout << take() << std::flush;
    } else if (verb == "lines") {
      const int count = std::stoi(take());
      const std::string text = take();
      for (int i = 0; i < count; ++i)
        std::cout << text << ' ' << i << std::endl;
    } else if (verb == "fill") {
      std::cout << std::string(std::stoul(take()), 'x') << std::flush;
    } else if (verb == "pid") {
      std::cout << "pid " << ::getpid() << std::endl;
    } else if (verb == "environment") {
      for (const auto& [name, value] : kEnvironment)
        std::cout << name << '=' << value << '\n';
      std::cout << std::flush;
    } else if (verb == "exit") {
      ::_exit(std::stoi(take()));
    } else if (verb == "raise") {
      const int signal = signal_of(take());
      ::signal(signal, SIG_DFL);  // a sanitizer has a handler of its own for some
      ::raise(signal);
    } else if (verb == "catch") {
      ::signal(signal_of(take()), say_caught);
    } else if (verb == "reason") {
      std::cout << "reason " << static_cast<int>(open_page().stop_reason.load()) << std::endl;
    } else if (verb == "ignore") {
      ::signal(signal_of(take()), SIG_IGN);
    } else if (verb == "wait") {
      wait_for(signal_of(take()));
    } else if (verb == "hold") {
      while (true)
        ::pause();
    } else if (verb == "sleep") {
      ::usleep(static_cast<useconds_t>(std::stod(take()) * 1e6));
    } else if (verb == "disk") {
      // As vfork(2), but with memory of its own. ThreadSanitizer makes a fork(2) of vfork(2).
      if (::syscall(SYS_clone, CLONE_VFORK | SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
        ::pause();
        ::_exit(0);
      }
    } else if (verb == "churn") {
      churn(std::stoi(take()));
    } else if (verb == "bomb") {
      while (true)
        if (::fork() < 0) ::sched_yield();
    } else if (verb == "session") {
      ::setsid();
    } else if (verb == "progress") {
      open_page().phase = ddp::Phase::training;
      open_page().step = std::stol(take());
    } else if (verb == "train") {
      const long steps = std::stol(take());
      train(steps, std::stod(take()), steps, 10);
    } else if (verb == "steps") {
      const long steps = std::stol(take());
      train(steps, std::stod(take()), 2 * steps, 2);
    } else if (verb == "collective") {
      open_page().collectives = 1;
    } else if (verb == "checkpoint") {
      open_page().checkpoint_step = std::stol(take());
    } else if (verb == "finish") {
      open_page().phase = ddp::Phase::finished;
    } else if (verb == "message") {
      std::ofstream(variable("TORCHELASTIC_ERROR_FILE"))
          << R"({"message":{"message":")" << take()
          << R"(","extraInfo":{"py_callstack":"at here","timestamp":"1"}}})";
    } else if (verb == "on") {
      const std::string rank = take();
      const Words block = take_block();
      if (rank == variable("RANK")) Script(block).run();
    } else if (verb == "round") {
      const std::string round = take();
      const Words block = take_block();
      if (round == variable("TORCHELASTIC_RESTART_COUNT")) Script(block).run();
    } else if (verb == "spawn" || verb == "lose") {
      spawn(verb == "lose");
    } else {
      std::cerr << "fake_worker: no such verb: " << verb << std::endl;
      ::_exit(2);
    }
  }

  Words words_;
  std::size_t next_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  if (!words.empty() && words[0].ends_with(".yaml")) {
    std::string line = "arguments";
    for (const std::string& word : words)
      line += " " + word;
    std::cout << line << std::endl;
    return 0;
  }
  block_awaited(words);
  Script(words).run();
  return 0;
}
