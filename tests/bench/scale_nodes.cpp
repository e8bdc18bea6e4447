// One real agent, node 0, and as many others as a large job has, played by this process over the
// real protocol: each joins, says that it started 8 workers, sends its heartbeats, and ends them
// when it is told to. Figures of the one: how long a join, a start, a failure and a teardown take
// with so many nodes, and what node 0's agent needs for it.
//   scale_nodes DDP_LAUNCH FAKE_WORKER NODES [token]
// With `token` the job has one, so every frame is sealed. Prints one line of JSON. Exit 1 when the
// job did not end as it should.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "common/node/environment.h"
#include "common/version.h"
#include "launcher/net/join.h"
#include "launcher/plan/wire/message_codec.h"
#include "tests/support/fake_node.h"
#include "tests/support/send_signal.h"

namespace {

using namespace ddp::launcher;
using namespace std::chrono_literals;

constexpr int kWorkers = 8;
constexpr int kFailedCode = 7;
constexpr auto kIdle = 5s;  // in which its heartbeats are measured
constexpr auto kTeardown = 500ms;
constexpr auto kLimit = 60s;  // for any one thing that is waited for

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// What node 0 has told one of us, and when.
struct Node {
  int rank = 0;
  std::shared_ptr<ControlLink> link;
  Clock::time_point start_at{};
  Clock::time_point stop_at{};
  Clock::time_point end_at{};
  int exit_code = -1;
  std::string gone;
  Heartbeat heartbeat{};
  std::int64_t heartbeat_at = 0;
};

class Scale {
 public:
  Scale(int nodes, int port, std::string token)
      : nodes_(static_cast<std::size_t>(nodes) - 1), port_(port), token_(std::move(token)) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].rank = static_cast<int>(i) + 1;
      asio::co_spawn(io_, live(i), rethrow);
    }
    asio::co_spawn(io_, send_heartbeats(), rethrow);
  }

  /// Until all nodes are so far. Errors: std::runtime_error.
  void run_until(const char* what, Clock::time_point Node::*since) {
    const auto is_there = [&](const Node& node) { return node.*since != Clock::time_point(); };
    for (const auto end = Clock::now() + kLimit;
         !std::all_of(nodes_.begin(), nodes_.end(), is_there);) {
      io_.run_for(10ms);
      for (const Node& node : nodes_) {
        if (!node.gone.empty() && !is_there(node))
          throw std::runtime_error("node " + std::to_string(node.rank) + " was lost: " + node.gone);
      }
      if (Clock::now() > end) throw std::runtime_error(std::string("no node got: ") + what);
    }
  }
  void run_for(Clock::duration time) { io_.run_for(time); }

  [[nodiscard]] Clock::time_point first(Clock::time_point Node::*member) const {
    return std::ranges::min(times(member));
  }
  [[nodiscard]] Clock::time_point last(Clock::time_point Node::*member) const {
    return std::ranges::max(times(member));
  }

  /// A worker in the middle fails.
  void fail() {
    Node& node = nodes_[nodes_.size() / 2];
    send_exited(node, 3, ExitStatus{kFailedCode, 0, false});
  }

  [[nodiscard]] bool all_heard_the_code() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
      return node.exit_code == kFailedCode;
    });
  }

 private:
  [[nodiscard]] std::vector<Clock::time_point> times(Clock::time_point Node::*member) const {
    std::vector<Clock::time_point> result;
    for (const Node& node : nodes_)
      result.push_back(node.*member);
    return result;
  }

  [[nodiscard]] JoinPlan plan_of(int rank) const {
    JoinPlan plan;
    plan.host = "127.0.0.1";
    plan.port = port_;
    plan.token = token_;
    plan.hello.version = DDP_VERSION;
    plan.hello.user_run_id = "none";
    plan.hello.node_rank = rank;
    plan.hello.min_nodes = static_cast<int>(nodes_.size()) + 1;
    plan.hello.max_nodes = plan.hello.min_nodes;
    plan.hello.nproc = kWorkers;
    plan.hello.host = "fake-" + std::to_string(rank);
    plan.hello.pid = ::getpid();
    plan.hello.entry = "fake_worker";
    return plan;
  }

  asio::awaitable<void> live(std::size_t index) {
    const std::function<void(const std::string&)> unheard = [](const std::string&) {};
    Joined joined = co_await join(io_, plan_of(nodes_[index].rank), unheard);
    Node& node = nodes_[index];
    node.link = joined.link;
    node.link->start([this, &node](std::string_view frame) { return take(node, frame); },
                     [&node](const std::string& why) { node.gone = why; });
  }

  bool take(Node& node, std::string_view frame) {
    const std::optional<NodeCommand> command = decode_command(frame);
    if (!command) return false;
    if (const auto* const start = std::get_if<StartRound>(&*command)) {
      node.start_at = Clock::now();
      GroupStarted started{start->round, now_ns(), {}};
      for (int i = 0; i < kWorkers; ++i)
        started.pids.push_back(1000 + i);
      node.link->send(encode(NodeEvent(started)));
    } else if (std::holds_alternative<EndRound>(*command)) {
      node.stop_at = Clock::now();
      asio::co_spawn(io_, end_workers(node), rethrow);
    } else if (const auto* const end = std::get_if<EndJob>(&*command)) {
      node.end_at = Clock::now();
      node.exit_code = end->exit_code;
      node.link->close();
    } else if (const auto* const heartbeat = std::get_if<Heartbeat>(&*command)) {
      node.heartbeat = *heartbeat;
      node.heartbeat_at = now_ns();
    }
    return true;
  }

  Ending ending_of(const Node& node, int local_rank, ExitStatus status) const {
    Ending ending;
    ending.rank = node.rank * kWorkers + local_rank;
    ending.status = status;
    ending.at = Clock::now() - node.start_at;
    ending.stop_sent = status.signal != 0;
    return ending;
  }

  void send_exited(const Node& node, int local_rank, ExitStatus status) {
    WorkerEnded ended;
    ended.worker.pid = 1000 + local_rank;
    ended.worker.local_rank = local_rank;
    ended.worker.ending = ending_of(node, local_rank, status);
    node.link->send(encode(NodeEvent(ended)));
  }

  /// After as long as obedient workers take.
  asio::awaitable<void> end_workers(const Node& node) {
    asio::steady_timer timer(io_, kTeardown);
    co_await timer.async_wait(kResult);
    const bool has_failed = &node == &nodes_[nodes_.size() / 2];
    GroupEnded ended;
    for (int i = 0; i < kWorkers; ++i) {
      const ExitStatus status =
          has_failed && i == 3 ? ExitStatus{kFailedCode, 0, false} : ExitStatus{0, SIGTERM, false};
      if (status.signal != 0) send_exited(node, i, status);
      WorkerReport report;
      report.ending = ending_of(node, i, status);
      report.node_rank = node.rank;
      report.host = "fake-" + std::to_string(node.rank);
      report.local_rank = i;
      report.pid = 1000 + i;
      report.last_lines.assign(10, std::string(80, 'x'));
      ended.workers.push_back(report);
    }
    node.link->send(encode(NodeEvent(ended)));
  }

  /// Each node once a second, a tenth of them every 100 ms.
  asio::awaitable<void> send_heartbeats() {
    asio::steady_timer timer(io_);
    for (std::size_t turn = 0;; ++turn) {
      timer.expires_after(100ms);
      co_await timer.async_wait(kResult);
      for (std::size_t i = turn % 10; i < nodes_.size(); i += 10)
        send_heartbeat(nodes_[i]);
    }
  }

  void send_heartbeat(const Node& node) {
    if (!node.link || !node.link->is_open()) return;
    HeartbeatReply heartbeat;
    heartbeat.sent_ns = now_ns();
    if (node.heartbeat_at != 0) {
      heartbeat.echo_ns = node.heartbeat.sent_ns;
      heartbeat.echo_age_ns = heartbeat.sent_ns - node.heartbeat_at;
    }
    for (int i = 0; node.start_at != Clock::time_point() && i < kWorkers; ++i) {
      WorkerSample sample;
      sample.rank = node.rank * kWorkers + i;
      sample.activity.state = 'S';
      heartbeat.samples.push_back(sample);
    }
    node.link->send(encode(NodeEvent(heartbeat)));
  }

  asio::io_context io_{1};  // first: it outlives the links
  std::vector<Node> nodes_;
  int port_;
  std::string token_;
};

pid_t launch(const std::string& program,
             const std::string& worker,
             int nodes,
             int port,
             const std::string& token) {
  std::vector<std::string> words{program,
                                 "--nnodes=" + std::to_string(nodes),
                                 "--node-rank=0",
                                 "--master-addr=127.0.0.1",
                                 "--master-port=" + std::to_string(port),
                                 "--nproc-per-node=" + std::to_string(kWorkers),
                                 worker,
                                 "hold"};
  std::vector<std::string> variables;
  for (const auto& [name, value] : ddp::read_environment())
    variables.push_back(name + "=" + value);
  if (!token.empty()) variables.push_back("DDP_TOKEN=" + token);
  const auto pointers_to = [](std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts)
      pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  };
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> envp = pointers_to(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(
      &actions, STDERR_FILENO, "scale_nodes.log", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + program);
  return pid;
}

/// utime and stime of /proc/PID/stat, in seconds.
double cpu_seconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 3; i < 14; ++i)
    fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

int measure(const std::string& program,
            const std::string& worker,
            int nodes,
            int port,
            const std::string& token) {
  const Clock::time_point begin = Clock::now();
  const pid_t pid = launch(program, worker, nodes, port, token);
  // A socket for each node that is played; node 0 sees to its own limit.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  int status = 0;
  try {
    Scale scale(nodes, port, token);
    scale.run_until("a start", &Node::start_at);
    const double join = seconds(scale.first(&Node::start_at) - begin);
    const double start = seconds(scale.last(&Node::start_at) - scale.first(&Node::start_at));
    const double cpu_before = cpu_seconds(pid);
    scale.run_for(kIdle);
    const double cpu = (cpu_seconds(pid) - cpu_before) / seconds(kIdle);
    const Clock::time_point failed_at = Clock::now();
    scale.fail();
    scale.run_until("a stop", &Node::stop_at);
    const double failure = seconds(scale.last(&Node::stop_at) - failed_at);
    scale.run_until("a verdict", &Node::end_at);
    const double verdict = seconds(scale.last(&Node::end_at) - failed_at);
    rusage used{};
    ::wait4(pid, &status, 0, &used);
    std::cout << "{\"token\": " << (token.empty() ? "false" : "true") << ", \"nodes\": " << nodes
              << ", \"workers\": " << nodes * kWorkers << ", \"join_s\": " << join
              << ", \"start_to_all_s\": " << start << ", \"failure_to_all_s\": " << failure
              << ", \"verdict_to_all_s\": " << verdict
              << ", \"agent_ended_s\": " << seconds(Clock::now() - failed_at)
              << ", \"agent_rss_mb\": " << static_cast<double>(used.ru_maxrss) / 1024
              << ", \"agent_cpu_at_rest\": " << cpu << "}" << std::endl;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == kFailedCode && scale.all_heard_the_code()) return 0;
    std::cerr << "scale_nodes: node 0 ended by " << code << ", expected " << kFailedCode
              << "; its lines: scale_nodes.log" << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "scale_nodes: " << error.what() << "; node 0's lines: scale_nodes.log"
              << std::endl;
    ddp::test::send_signal(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool has_token = argc == 5 && argv[4] == std::string("token");
  if (argc != 4 && !has_token) {
    std::cerr << "usage: scale_nodes DDP_LAUNCH FAKE_WORKER NODES [token]" << std::endl;
    return 2;
  }
  const std::string token(has_token ? 64 : 0, 't');
  return measure(argv[1], argv[2], std::stoi(argv[3]), ddp::test::free_port(), token);
}
