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
#include "common/files/descriptor.h"
#include "common/files/files.h"
#include "common/files/input_file.h"
#include "common/job/job_keys.h"
#include "common/text/join_words.h"
#include "launcher/os/asio.h"
#include "launcher/os/file_writer.h"
#include "launcher/os/inbox.h"
#include "launcher/os/parent_pipe.h"
#include "launcher/os/process.h"
#include "launcher/os/program.h"
#include "launcher/os/resources.h"
#include "launcher/os/stop_signals.h"
#include "launcher/plan/command_line/flags.h"
#include "launcher/plan/hosts/hosts_end.h"
#include "launcher/plan/output/line_splitter.h"
#include "launcher/plan/secret.h"
#include "launcher/run/console.h"
#include "launcher/run/load_job.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kReadBytes = 16 << 10;
constexpr std::size_t kMaxQueued = 1 << 20;  // bytes for the console; above it connections wait
constexpr std::chrono::milliseconds kQueuePause(10);  // between two checks of a full queue
constexpr std::chrono::seconds kDrainWait(1);         // for the last lines of a connection
// Agents of a job end together, except when one is lost: then the others end their workers first.
constexpr std::chrono::seconds kOthersWait(10);

constexpr std::array<int, 4> kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool is_stop_signal(int signal) {
  return std::ranges::find(kStopSignals, signal) != kStopSignals.end();
}

struct StreamEnded {};

struct ConnectionEnded {
  std::size_t node = 0;
  std::optional<ExitStatus> status;
};
struct StopRequestCame {
  Clock::time_point at;
};
using StarterEvent = std::variant<ConnectionEnded, StopRequestCame>;

/// One ssh process and its streams.
struct Connection {
  Connection(asio::io_context& io, std::size_t number, const Host& host)
      : node(number), name(host.address), output(io), errors(io), streams(io) {}

  const std::size_t node;
  const std::string name;
  Descriptor input;  // write end of its stdin
  asio::posix::stream_descriptor output;
  asio::posix::stream_descriptor errors;
  Inbox<StreamEnded> streams;
  std::string last_error;  // the newest line of its stderr
  std::unique_ptr<Process> process;
};

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
        signals_(io_,
                 {kStopSignals.begin(), kStopSignals.end()},
                 [this](int signal) {
                   if (is_stop_signal(signal)) inbox_.push(StopRequestCame{Clock::now()});
                 }),
        end_(plan.hosts.size(), plan.others_wait) {}

  int run() {
    start_all();
    asio::co_spawn(io_, run_until_all_ended(), rethrow);
    io_.run();
    for (const std::size_t node : end_.cut_off())
      say_ended(*connections_[node], "the connection, or its agent, was cut off");
    return end_.exit_code();
  }

 private:
  void start_all();
  void start(Connection& connection, const Secret& token);
  asio::awaitable<void> run_until_all_ended();
  asio::awaitable<void> copy(Connection& connection, FileWriter::Target target);
  bool take_greeting(Connection& connection, std::string_view line);
  asio::awaitable<void> wait_for_end(Connection& connection);
  HostsEnd::Action take(const std::optional<StarterEvent>& event);
  HostsEnd::Action note_end(const ConnectionEnded& ended);
  void carry_out(HostsEnd::Action action);
  void say_ended(const Connection& connection, const std::string& what);

  const SshPlan& plan_;
  FileWriter writer_;
  Console console_;
  asio::io_context io_{1};
  Inbox<StarterEvent> inbox_{io_};
  StopSignals signals_;
  HostsEnd end_;
  std::vector<std::unique_ptr<Connection>> connections_;
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
}

void Starter::start(Connection& connection, const Secret& token) {
  const std::string label = "ssh to " + connection.name;
  std::array<std::array<int, 2>, 3> pipes{};  // stdin, stdout, stderr
  for (auto& ends : pipes)
    check(::pipe2(ends.data(), O_CLOEXEC), "pipe2", label);
  connection.input = Descriptor(pipes[0][1]);
  connection.output.assign(pipes[1][0]);
  connection.errors.assign(pipes[2][0]);
  // The token fits into the pipe's buffer and waits there, so an ssh that ends at once does no
  // harm.
  for (const std::string_view text : {token.text(), std::string_view("\n")})
    check(::write(connection.input.fd(), text.data(), text.size()), "write", label);
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
  asio::co_spawn(io_, wait_for_end(connection), rethrow);
}

asio::awaitable<void> Starter::run_until_all_ended() {
  while (!end_.is_over()) {
    const std::optional<StarterEvent> event =
        co_await inbox_.next(end_.deadline().value_or(kNoDeadline));
    carry_out(take(event));
  }
  // No connection is left.
  signals_.close();
  for (const auto& connection : connections_) {
    // An ssh connection shared with other programs (ControlPersist) may keep the streams open.
    close_quietly(connection->output);
    close_quietly(connection->errors);
  }
}

HostsEnd::Action Starter::take(const std::optional<StarterEvent>& event) {
  if (!event) {
    console_.warning("some agents have not ended with the others; they are stopped.");
    return end_.note_deadline();
  }
  if (const auto* const ended = std::get_if<ConnectionEnded>(&*event)) return note_end(*ended);
  const HostsEnd::Action action = end_.note_stop_request(std::get<StopRequestCame>(*event).at);
  if (action == HostsEnd::Action::stop_agents)
    console_.info("stopping the job on all hosts; a second Ctrl-C kills it.");
  return action;
}

/// Takes the agent's greeting, which is not shown. Any other line may be the last before ssh fails.
bool Starter::take_greeting(Connection& connection, std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line == kConnected) {
    end_.note_agent(connection.node);
    return true;
  }
  if (!line.empty()) connection.last_error = line;
  return false;
}

/// Copies whole lines, so that lines of several hosts never mix.
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
      if (is_errors && take_greeting(connection, line)) return;
      text.append(line).append("\n");
    });
    writer_.write(target, std::move(text));
    while (writer_.queued_bytes(target) > kMaxQueued) {
      timer.expires_after(kQueuePause);
      co_await timer.async_wait(kResult);
    }
  }
  splitter.finish([&](std::string_view line) {
    if (is_errors && take_greeting(connection, line)) return;
    writer_.write(target, std::string(line) + "\n");
  });
  connection.streams.push(StreamEnded{});
}

/// Suspends: until ssh has ended and its output has been read, at most kDrainWait for the output.
asio::awaitable<void> Starter::wait_for_end(Connection& connection) {
  const std::optional<ExitStatus> status = co_await connection.process->wait();
  connection.process->kill_group();
  const Deadline deadline = Clock::now() + kDrainWait;
  for (int stream = 0; stream < 2; ++stream) {
    const std::optional<StreamEnded> ended = co_await connection.streams.next(deadline);
    if (!ended) break;
  }
  connection.process->reap();
  inbox_.push(ConnectionEnded{connection.node, status});
}

HostsEnd::Action Starter::note_end(const ConnectionEnded& ended) {
  const Connection& connection = *connections_[ended.node];
  const ExitStatus status = ended.status.value_or(ExitStatus{HostsEnd::kSshFailed});
  const HostsEnd::Action action = end_.note_connection_ended(ended.node, status, Clock::now());
  if (action != HostsEnd::Action::stop_agents) return action;
  say_ended(connection, HostsEnd::is_reached(status) ? "no agent was started" : "ssh failed");
  console_.info("try: " + plan_.ssh + " -oBatchMode=yes " + plan_.hosts[ended.node].login + " " +
                quote_for_shell(plan_.program) + " --version");
  return action;
}

void Starter::say_ended(const Connection& connection, const std::string& what) {
  std::string text =
      "host " + connection.name + ": " + what + ": " + to_text(end_.status(connection.node));
  if (!end_.has_agent(connection.node) && !connection.last_error.empty())
    text += ", " + connection.last_error;
  console_.error(text);
}

/// One byte on its input makes an agent stop the job; the end of the input makes it kill the job.
void Starter::carry_out(HostsEnd::Action action) {
  if (action == HostsEnd::Action::wait) return;
  for (const auto& connection : connections_) {
    if (action == HostsEnd::Action::cut_connections) {
      connection->process->signal(SIGKILL);
      continue;
    }
    if (end_.has_ended(connection->node) || !connection->input) continue;
    const bool is_stop = action == HostsEnd::Action::stop_agents;
    if (is_stop && ::write(connection->input.fd(), "\n", 1) == 1) continue;
    connection->input = Descriptor();
  }
}

}  // namespace

SshPlan plan_hosts(const Options& options,
                   const std::vector<std::string>& typed,
                   const Environment& environment) {
  SshPlan plan;
  plan.hosts = options.hosts
                   ? parse_hosts(*options.hosts)
                   : parse_host_file(read_host_file(*options.hostfile), *options.hostfile);
  const bool is_doctor = options.verb == "doctor";
  plan.typed = split_arguments(std::span(typed).subspan(is_doctor ? 1 : 0), flags());
  if (is_doctor) plan.typed.rest.insert(plan.typed.rest.begin(), options.verb);
  plan.ssh = options.ssh;
  plan.program = beside_this_program("ddp-launch");
  plan.directory = std::filesystem::current_path();
  plan.environment = environment;
  plan.has_colors = ::isatty(STDERR_FILENO) == 1 && !find_variable(environment, "NO_COLOR");
  check_ssh_plan(plan);
  if (is_doctor) return plan;
  // Check the job here, so that its mistakes are shown once.
  const JobValues job = load_values(options, environment).job;
  plan.others_wait = job.duration("launch.grace") + kOthersWait;
  // The others may wait for a replacement node.
  plan.others_wait +=
      job.maybe_duration("launch.replace_timeout").value_or(std::chrono::milliseconds(0));
  return plan;
}

std::string describe_ssh_plan(const SshPlan& plan) {
  SshPlan shown = plan;
  for (std::string& word : shown.typed.rest)
    word = mask_secret(word);
  std::string text;
  for (std::size_t node = 0; node < plan.hosts.size(); ++node)
    text += join_words(ssh_command(shown, static_cast<int>(node)), " ", quote_for_shell) + "\n";
  return text;
}

int run_hosts(const SshPlan& plan) {
  return Starter(plan).run();
}

}  // namespace ddp::launcher
