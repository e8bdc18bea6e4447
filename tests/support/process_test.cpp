#include "tests/support/process_test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "common/node/environment.h"

namespace ddp::test {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kStep(5);

/// Files of /proc vanish while they are read: what was there until then counts.
std::vector<std::string> make_environment(const Command& command, const std::string& marker) {
  Environment values = read_environment();
  values["DDP_TEST_MARKER"] = marker;
  for (const auto& [name, value] : command.environment) {
    if (value.empty()) {
      values.erase(name);
    } else {
      values[name] = value;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [name, value] : values)
    texts.push_back(name + "=" + value);
  return texts;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// What a person types to see the same.
std::string by_hand(const Command& command) {
  std::string text;
  for (const auto& [name, value] : command.environment)
    text += name + "='" + value + "' ";
  for (const std::string& argument : command.arguments) {
    const bool plain = argument.find_first_of(" []$'\"()*;&|<>") == std::string::npos;
    text += plain ? argument + " " : "'" + argument + "' ";
  }
  return text;
}

/// Until a pipe takes nothing more. Its description is shared with the program, so it blocks again.
void fill(int fd) {
  const std::string page(4096, ' ');
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  while (::write(fd, page.data(), page.size()) > 0) {
  }
  ::fcntl(fd, F_SETFL, 0);
}

Milliseconds to_milliseconds(const timeval& time) {
  return Milliseconds(time.tv_sec * 1000 + time.tv_usec / 1000);
}

/// The number right after `text`, once its end is there too: a piece may end in the middle of it.
std::optional<int> find_number(const std::string& stream, const std::string& text, bool is_over) {
  for (std::size_t at = stream.find(text); at != std::string::npos;
       at = stream.find(text, at + 1)) {
    const char* const begin = stream.data() + at + text.size();
    const char* const last = stream.data() + stream.size();
    int number = 0;
    const auto [end, error] = std::from_chars(begin, last, number);
    if (error == std::errc() && (end != last || is_over)) return number;
  }
  return std::nullopt;
}

/// A failed ASSERT_ ends the test from within a helper function too: by itself it would only end
/// the helper, and the test would go on with what is not there.
class ThrowOnFatal : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.type() == testing::TestPartResult::kFatalFailure)
      throw testing::AssertionException(result);
  }
};

const bool kThrows = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new ThrowOnFatal);
  return true;
}();

}  // namespace

int setting(const char* name, int otherwise) {
  const auto text = find_variable(read_environment(), name);
  return text ? std::stoi(*text) : otherwise;
}

Running::Running(const Command& command, const std::string& marker) {
  std::cout << "by hand: " << by_hand(command) << std::endl;
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = make_environment(command, marker);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(environment);
  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0)
    throw std::runtime_error("pipe2");
  if (command.full_stderr) fill(err[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    if (command.close_stdout) ::close(STDOUT_FILENO);
    // An earlier test of this process may have left some ignored.
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2})
      ::signal(signal, SIG_DFL);
    for (const int signal : command.ignored_signals)
      ::signal(signal, SIG_IGN);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::raise(SIGKILL);  // shown as -9 by wait()
  }
  ::close(out[1]);
  ::close(err[1]);
  if (pid_ < 0) throw std::runtime_error("fork: " + std::string(std::strerror(errno)));
  streams_[0].fd = out[0];
  streams_[1].fd = err[0];
  if (command.full_stderr) streams_[1].bytes = 0;
}

Running::~Running() {
  if (!ended_) {
    send_signal(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
  for (Stream& stream : streams_) {
    if (stream.fd >= 0) ::close(stream.fd);
  }
}

void Running::read_some(Milliseconds limit) {
  const auto wanted = [](const Stream& stream) {
    const bool reads = stream.bytes > 0 && Clock::now() >= stream.next;
    return pollfd{reads ? stream.fd : -1, POLLIN, 0};
  };
  std::array<pollfd, 2> entries{wanted(streams_[0]), wanted(streams_[1])};
  if (::poll(entries.data(), entries.size(), static_cast<int>(limit.count())) <= 0) return;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Stream& stream = streams_[i];
    if (entries[i].revents == 0 || entries[i].fd < 0) continue;
    std::array<char, kAll> piece;
    const ssize_t got = ::read(stream.fd, piece.data(), stream.bytes);
    if (stream.bytes < kAll) stream.next = Clock::now() + kStep;
    if (got > 0) {
      stream.text.append(piece.data(), static_cast<std::size_t>(got));
    } else {
      ::close(stream.fd);
      stream.fd = -1;
    }
  }
}

bool Running::sees(const std::string& text, Milliseconds limit) {
  const auto has = [&] {
    return out().find(text) != std::string::npos || err().find(text) != std::string::npos;
  };
  for (const auto end = Clock::now() + limit; !has() && Clock::now() < end;)
    read_some(kStep);
  if (!has()) {
    std::cout << "not seen: " << text << "\n--- stdout\n" << out() << "--- stderr\n" << err();
  }
  return has();
}

void Running::read_for(Milliseconds limit) {
  for (const auto end = Clock::now() + limit; Clock::now() < end;)
    read_some(kStep);
}

int Running::number_after(const std::string& text, Milliseconds limit) {
  for (const auto end = Clock::now() + limit;;) {
    for (const Stream& stream : streams_) {
      if (const auto number = find_number(stream.text, text, stream.fd < 0)) return *number;
    }
    if (Clock::now() >= end || (streams_[0].fd < 0 && streams_[1].fd < 0)) break;
    read_some(kStep);
  }
  throw std::runtime_error("no number came after '" + text + "'\n--- stdout\n" + out() +
                           "--- stderr\n" + err());
}

void Running::signal(int signal) const {
  if (!ended_) send_signal(pid_, signal);
}

bool Running::collect() {
  rusage used{};
  if (!ended_ && ::wait4(pid_, &status_, WNOHANG, &used) == pid_) {
    ended_ = true;
    peak_kib_ = static_cast<std::size_t>(used.ru_maxrss);
    busy_ = to_milliseconds(used.ru_utime) + to_milliseconds(used.ru_stime);
    lived_ = std::chrono::duration_cast<Milliseconds>(Clock::now() - begin_);
  }
  return ended_;
}

int Running::wait(Milliseconds limit) {
  const auto end = Clock::now() + limit;
  while (!collect() && Clock::now() < end)
    read_some(kStep);
  if (!ended_) {
    std::cout << "still running\n--- stdout\n" << out() << "--- stderr\n" << err();
    return -1000;
  }
  // What it wrote last; a process that it left behind may hold the pipe, so this ends too.
  const auto last = Clock::now() + std::chrono::seconds(1);
  for (Stream& stream : streams_)
    stream.bytes = kAll;
  while ((streams_[0].fd >= 0 || streams_[1].fd >= 0) && Clock::now() < last)
    read_some(kStep);
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

void Running::drop_stdout() {
  if (streams_[0].fd >= 0) ::close(streams_[0].fd);
  streams_[0].fd = -1;
}

bool eventually(const std::function<bool()>& condition, Milliseconds limit) {
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    if (condition()) return true;
    ::poll(nullptr, 0, static_cast<int>(kStep.count()));
  }
  return condition();
}

std::string state_of(pid_t pid) {
  const std::string text = read_all("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = text.rfind(')');
  return close == std::string::npos ? "" : text.substr(close + 2, 1);
}

bool lives_on(pid_t pid) {
  const std::string state = state_of(pid);
  return state == "R" || state == "S" || state == "D";
}

bool blocks_signal(pid_t pid, int signal) {
  const std::string text = read_all("/proc/" + std::to_string(pid) + "/status");
  const std::size_t begin = text.find("SigBlk:");
  if (begin == std::string::npos) return false;
  return ((std::stoull(text.substr(begin + 7), nullptr, 16) >> (signal - 1)) & 1) != 0;
}

std::string read_all(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t got = 0; (got = ::read(fd, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  return text;
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

std::size_t status_number(pid_t pid, const std::string& name) {
  const std::string text = read_all("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = text.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::stoul(text.substr(at + name.size() + 2));
}

std::size_t count_descriptors(pid_t pid) {
  const std::filesystem::directory_iterator entries("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

ProcessTest::ProcessTest() {
  static int number = 0;
  marker_ = std::to_string(::getpid()) + "-" + std::to_string(++number);
  scratch_ = std::filesystem::temp_directory_path() / ("ddp-test-" + marker_);
  std::filesystem::create_directories(scratch_);
}

ProcessTest::~ProcessTest() {
  std::error_code ignored;
  std::filesystem::remove_all(scratch_, ignored);
}

void ProcessTest::TearDown() {
  const std::vector<std::string> left = alive();
  EXPECT_TRUE(left.empty()) << "left alive: " << testing::PrintToString(left);
  for (const std::string& process : left)
    send_signal(std::atoi(process.c_str()), SIGKILL);
}

std::unique_ptr<Running> ProcessTest::start(Command command) {
  return std::make_unique<Running>(command, marker_);
}

std::unique_ptr<Running> ProcessTest::launch(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DDP_LAUNCH);
  return start(Command{.arguments = std::move(arguments)});
}

std::unique_ptr<Running> ProcessTest::launch_fakes(int workers,
                                                   const std::string& verbs,
                                                   const std::vector<std::string>& flags) {
  std::vector<std::string> arguments{"--nproc-per-node", std::to_string(workers), "--grace", "2s"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.emplace_back(DDP_FAKE_WORKER);
  std::istringstream words(verbs);
  for (std::string word; words >> word;)
    arguments.push_back(word);
  return launch(std::move(arguments));
}

std::vector<std::string> ProcessTest::alive() const {
  std::vector<std::string> found;
  const std::string wanted = "DDP_TEST_MARKER=" + marker_ + '\0';
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (read_all(entry.path() / "environ").find(wanted) == std::string::npos) continue;
    std::string command = read_all(entry.path() / "cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    found.push_back(name + " " + command);
  }
  return found;
}

pid_t ProcessTest::find_guard() const {
  pid_t guard = 0;
  const auto finds = [&] {
    for (const std::string& process : alive()) {
      const pid_t pid = std::stoi(process);
      if (read_all("/proc/" + std::to_string(pid) + "/comm") == "ddp-guard\n") guard = pid;
    }
    return guard > 0;
  };
  if (!eventually(finds, kTestTimeout))
    throw std::runtime_error("no guard: " + testing::PrintToString(alive()));
  return guard;
}

bool ProcessTest::nothing_lives_within(Milliseconds limit) const {
  return eventually([this] { return alive().empty(); }, limit);
}

std::string ProcessTest::write_file(const std::string& name, const std::string& text) const {
  const std::filesystem::path path = scratch_ / name;
  std::ofstream(path) << text;
  return path.string();
}

}  // namespace ddp::test
