#include "launcher/run/hosts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "common/error.h"
#include "common/input_file.h"
#include "common/job_keys.h"
#include "common/secret.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/inbox.h"
#include "launcher/os/parent_pipe.h"
#include "launcher/os/process.h"
#include "launcher/os/program.h"
#include "launcher/os/resources.h"
#include "launcher/os/stop_signals.h"
#include "launcher/plan/flags.h"
#include "launcher/plan/line_splitter.h"
#include "launcher/plan/stop_requests.h"
#include "launcher/run/console.h"
#include "launcher/run/load_job.h"

namespace ddp::launcher {
namespace {

constexpr int kTokenBytes = 32;
constexpr int kSshFailed = 255;  // ssh's own code (ssh(1)); also when what it ran was killed
constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::size_t kMostQueued = 1 << 20;          // for the console; then the connections wait
constexpr std::chrono::milliseconds kQueuePause(10);  // between two looks at a full queue
constexpr std::chrono::seconds kDrainWait(1);         // for what a connection still says
// Agents of a job end together, but for one that was lost: then the others end their workers first.
constexpr std::chrono::seconds kOthersWait(10);

constexpr std::array<int, 4> kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool is_stop_signal(int signal) {
  return std::find(kStopSignals.begin(), kStopSignals.end(), signal) != kStopSignals.end();
}

struct StreamEnded {};

struct HostEnded {
  std::size_t node = 0;
  std::optional<ExitStatus> status;
};
struct SignalCame {
  int signal = 0;
  Clock::time_point at;
};
using AgentEvent = std::variant<HostEnded, SignalCame>;

/// One ssh and its streams.
struct Connection {
  Connection(asio::io_context& io, std::size_t number, const Host& host)
      : node(number), name(host.address), output(io), errors(io), streams(io) {}

  const std::size_t node;
  const std::string name;
  int input = -1;  // write end of its stdin
  asio::posix::stream_descriptor output;
  asio::posix::stream_descriptor errors;
  Inbox<StreamEnded> streams;
  bool has_agent = false;  // it has said so
  std::string last_error;  // the newest line of its stderr
  std::optional<ExitStatus> status;
  std::unique_ptr<Process> process;

  ~Connection() {
    if (input >= 0) ::close(input);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

/// The agent's greeting is for us. Any other line may be the last one before ssh fails.
bool is_greeting(Connection& connection, std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line == kConnected) {
    connection.has_agent = true;
    return true;
  }
  if (!line.empty()) connection.last_error = line;
  return false;
}

std::string read_host_file(const std::string& path) {
  constexpr std::size_t kLargest = 4 << 20;
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) throw UsageError("--hostfile " + path + ": " + why_not + ".");
  std::string text(std::min(file->size() + 1, kLargest), '\0');
  text.resize(file->read(std::as_writable_bytes(std::span(text))));
  if (text.size() < kLargest) return text;
  throw UsageError("--hostfile " + path + ": larger than a list of hosts can be.");
}

class Starter {
 public:
  explicit Starter(const SshPlan& plan)
      : plan_(plan),
        console_(writer_, log::Level::info, false),
        signals_(io_, {kStopSignals.begin(), kStopSignals.end()}, [this](int signal) {
          if (is_stop_signal(signal)) inbox_.push(SignalCame{signal, Clock::now()});
        }) {}

  int run() {
    start_all();
    asio::co_spawn(io_, run_until_all_ended(), rethrow);
    io_.run();
    return verdict();
  }

 private:
  void start_all();
  void start(Connection& connection, const Secret& token);
  asio::awaitable<void> run_until_all_ended();
  asio::awaitable<void> copy(Connection& connection, FileWriter::Target target);
  asio::awaitable<void> watch(Connection& connection);
  void note_end(const HostEnded& ended);
  void note_stop_request(const SignalCame& signal);
  void stop_agents(int times);
  void say_ended(const Connection& connection, const std::string& what);
  [[nodiscard]] int verdict();

  const SshPlan& plan_;
  FileWriter writer_;
  Console console_;
  asio::io_context io_{1};
  Inbox<AgentEvent> inbox_{io_};
  StopSignals signals_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::size_t running_ = 0;
  Deadline others_deadline_ = kNoDeadline;  // for agents that do not end with the first
  StopRequests requests_;
  std::optional<int> failure_;  // a host that has no agent: our code
};

void Starter::start_all() {
  const std::string search_path =
      find_variable(plan_.environment, "PATH").value_or("/usr/bin:/bin");
  (void)find_program(ssh_command(plan_, 0).front(), search_path);
  constexpr int kPerHost = 4;
  const int hosts = static_cast<int>(plan_.hosts.size());
  const int needed = count_descriptors() + kPerHost * hosts + 16;
  if (raise_descriptor_limit(needed) < needed) {
    throw SystemError("cannot start " + std::to_string(hosts) + " connections: this needs " +
                          std::to_string(needed) +
                          " descriptors. Raise the hard limit (ulimit -Hn).",
                      exit_code::kCannotExecute);
  }
  const Secret token = random_hex(kTokenBytes);
  for (std::size_t node = 0; node < plan_.hosts.size(); ++node) {
    connections_.push_back(std::make_unique<Connection>(io_, node, plan_.hosts[node]));
    start(*connections_.back(), token);
  }
  running_ = connections_.size();
}

void Starter::start(Connection& connection, const Secret& token) {
  const std::string label = "ssh to " + connection.name;
  std::array<std::array<int, 2>, 3> pipes{};  // stdin, stdout, stderr
  for (auto& ends : pipes)
    check(::pipe2(ends.data(), O_CLOEXEC), "pipe2", label);
  connection.input = pipes[0][1];
  connection.output.assign(pipes[1][0]);
  connection.errors.assign(pipes[2][0]);
  // It fits into the pipe, and waits there: an ssh that ends at once breaks nothing.
  for (const std::string_view text : {token.text(), std::string_view("\n")})
    check(::write(connection.input, text.data(), text.size()), "write", label);
  ProcessSpec spec;
  spec.label = label;
  spec.arguments = ssh_command(plan_, static_cast<int>(connection.node));
  spec.executable = find_program(
      spec.arguments.front(), find_variable(plan_.environment, "PATH").value_or("/usr/bin:/bin"));
  spec.environment = plan_.environment;
  spec.environment.erase("DDP_TOKEN");
  spec.stdin_fd = pipes[0][0];
  spec.stdout_fd = pipes[1][1];
  spec.stderr_fd = pipes[2][1];
  connection.process = std::make_unique<Process>(io_, spec);
  for (const int fd : {pipes[0][0], pipes[1][1], pipes[2][1]})
    ::close(fd);
  asio::co_spawn(io_, copy(connection, FileWriter::kStdout), rethrow);
  asio::co_spawn(io_, copy(connection, FileWriter::kStderr), rethrow);
  asio::co_spawn(io_, watch(connection), rethrow);
}

asio::awaitable<void> Starter::run_until_all_ended() {
  while (running_ > 0) {
    const std::optional<AgentEvent> event = co_await inbox_.next(others_deadline_);
    if (!event) {
      others_deadline_ = kNoDeadline;
      console_.warning("some agents have not ended with the others; they are stopped.");
      stop_agents(1);
      continue;
    }
    if (const auto* const ended = std::get_if<HostEnded>(&*event)) note_end(*ended);
    if (const auto* const signal = std::get_if<SignalCame>(&*event)) note_stop_request(*signal);
  }
  // No connection is left.
  signals_.close();
  for (const auto& connection : connections_) {
    // A connection that is shared with other programs (ControlPersist) holds them for long.
    boost::system::error_code ignored;
    connection->output.close(ignored);
    connection->errors.close(ignored);
  }
}

/// Whole lines: those of several hosts never mix.
asio::awaitable<void> Starter::copy(Connection& connection, FileWriter::Target target) {
  const bool is_errors = target == FileWriter::kStderr;
  asio::posix::stream_descriptor& stream = is_errors ? connection.errors : connection.output;
  LineSplitter splitter;
  std::vector<char> bytes(kReadBytes);
  asio::steady_timer timer(io_);
  const auto buffer = asio::buffer(bytes);
  while (true) {
    const auto [error, size] = co_await stream.async_read_some(buffer, kResult);
    if (error) break;
    std::string text;
    splitter.feed(std::string_view(bytes.data(), size), [&](std::string_view line) {
      if (is_errors && is_greeting(connection, line)) return;
      text.append(line).append("\n");
    });
    writer_.write(target, std::move(text));
    while (writer_.queued_bytes(target) > kMostQueued) {
      timer.expires_after(kQueuePause);
      co_await timer.async_wait(kResult);
    }
  }
  splitter.finish([&](std::string_view line) {
    if (is_errors && is_greeting(connection, line)) return;
    writer_.write(target, std::string(line) + "\n");
  });
  connection.streams.push(StreamEnded{});
}

/// Suspends: until ssh has ended, and what it had to say is there.
asio::awaitable<void> Starter::watch(Connection& connection) {
  const std::optional<ExitStatus> status = co_await connection.process->wait();
  const Deadline deadline = Clock::now() + kDrainWait;
  for (int stream = 0; stream < 2; ++stream) {
    const std::optional<StreamEnded> ended = co_await connection.streams.next(deadline);
    if (!ended) break;
  }
  connection.process->reap();
  inbox_.push(HostEnded{connection.node, status});
}

void Starter::note_end(const HostEnded& ended) {
  Connection& connection = *connections_[ended.node];
  connection.status = ended.status.value_or(ExitStatus{kSshFailed});
  --running_;
  if (others_deadline_ == kNoDeadline) others_deadline_ = Clock::now() + plan_.others_wait;
  if (requests_.count() > 0 || connection.has_agent) return;
  const bool is_reached = connection.status->exit_code() < 128;
  say_ended(connection, is_reached ? "no agent was started" : "ssh failed");
  console_.info("try: " + plan_.ssh + " -oBatchMode=yes " + plan_.hosts[ended.node].login + " " +
                quote_for_shell(plan_.program) + " --version");
  const int code = connection.status->code;
  if (!failure_) failure_ = is_reached && code != 0 ? code : exit_code::kRendezvous;
  stop_agents(1);
}

void Starter::say_ended(const Connection& connection, const std::string& what) {
  std::string text = "host " + connection.name + ": " + what + ": " + to_text(*connection.status);
  if (!connection.has_agent && !connection.last_error.empty()) text += ", " + connection.last_error;
  console_.error(text);
}

void Starter::note_stop_request(const SignalCame& signal) {
  const int request = requests_.note(signal.at);
  if (request == 0) return;
  if (request == 1) console_.info("stopping the job on all hosts; a second Ctrl-C kills it.");
  if (request < 3) return stop_agents(request);
  for (const auto& connection : connections_)
    connection->process->signal(SIGKILL);
}

/// Once: the agents stop the job, by a byte; twice: they kill it, by the end of the connection.
void Starter::stop_agents(int times) {
  for (const auto& connection : connections_) {
    if (connection->status || connection->input < 0) continue;
    const bool is_told = times == 1 && ::write(connection->input, "\n", 1) == 1;
    if (is_told) continue;
    ::close(connection->input);
    connection->input = -1;
  }
}

/// All agents of a job end with the same code, but for one that was killed or cut off.
int Starter::verdict() {
  if (failure_) return *failure_;
  const auto is_cut = [](const auto& connection) {
    return connection->status->exit_code() == kSshFailed || connection->status->signal != 0;
  };
  const auto told = std::find_if_not(connections_.begin(), connections_.end(), is_cut);
  if (told == connections_.end())
    return requests_.count() > 0 ? exit_code::of_signal(SIGTERM) : kSshFailed;
  for (const auto& connection : connections_) {
    if (is_cut(connection)) say_ended(*connection, "the connection, or its agent, was cut off");
  }
  return (*told)->status->code;
}

}  // namespace

SshPlan plan_hosts(const Options& options,
                   const std::vector<std::string>& typed,
                   const Environment& environment) {
  SshPlan plan;
  plan.hosts = options.hosts
                   ? parse_hosts(*options.hosts)
                   : parse_host_file(read_host_file(*options.hostfile), *options.hostfile);
  const bool is_doctor = options.command == "doctor";
  plan.typed = split_arguments(std::span(typed).subspan(is_doctor ? 1 : 0), flags());
  if (is_doctor) plan.typed.rest.insert(plan.typed.rest.begin(), options.command);
  plan.ssh = options.ssh;
  plan.program = beside_this_program("ddp-launch");
  plan.directory = std::filesystem::current_path();
  plan.environment = environment;
  plan.has_colors = ::isatty(STDERR_FILENO) == 1 && !find_variable(environment, "NO_COLOR");
  check_ssh_plan(plan);
  if (is_doctor) return plan;
  // What is wrong with the job is said once, here.
  const JobValues job = load_values(options, environment).job;
  plan.others_wait = job.duration("launch.grace") + kOthersWait;
  if (!job.is_null("launch.replace_timeout")) {
    plan.others_wait += job.duration("launch.replace_timeout");  // they wait for another node
  }
  return plan;
}

std::string describe_ssh_plan(const SshPlan& plan) {
  SshPlan shown = plan;
  for (std::string& word : shown.typed.rest)
    word = mask_secret(word);
  std::string text;
  for (std::size_t node = 0; node < plan.hosts.size(); ++node) {
    std::string line;
    for (const std::string& word : ssh_command(shown, static_cast<int>(node)))
      line += (line.empty() ? "" : " ") + quote_for_shell(word);
    text += line + "\n";
  }
  return text;
}

int run_hosts(const SshPlan& plan) {
  return Starter(plan).run();
}

}  // namespace ddp::launcher
