// Several nodes on this machine, for tests of jobs of several nodes. Each node is a network
// namespace of its own with a name and a hosts file of its own; a bridge in one more namespace is
// the switch between them. Nothing of this machine's own network is touched, so every test has the
// same addresses and ports. All of it is removed at the end; what a killed test left, the next one
// removes. Promises nothing about processes: they share one process table, so that a test sees
// them all.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/process_test.h"

namespace ddp::test {

class Cluster {
 public:
  /// Errors: std::runtime_error with the command that failed.
  explicit Cluster(int nodes, const std::filesystem::path& scratch);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster();

  /// Why this machine lets us make none; empty when it does.
  static std::string why_not();

  [[nodiscard]] int size() const { return size_; }
  /// "10.77.0.1" for node 0, and so on.
  [[nodiscard]] static std::string address(int node);
  /// "node0"; its hosts file knows the others by that name.
  [[nodiscard]] static std::string host(int node);
  /// Before a command: it runs on that node.
  [[nodiscard]] std::vector<std::string> enter(int node) const;

  /// Cuts that node off, and connects it again.
  void unplug(int node) const;
  void plug_in(int node) const;
  /// What `from` sends does not reach `to`; the other direction does.
  void drop(int from, int to) const;
  /// So many packets of a hundred that reach `node` are lost.
  void lose(int node, int percent) const;
  /// So many kilobits a second reach it, and leave it; what waits longer than a second is lost.
  void slow(int node, int kbit) const;
  /// Packets of more than `bytes` that `from` sends do not reach `to`, and nobody tells; smaller
  /// ones do: a device on the way has a smaller MTU than the nodes, and is silent about it.
  void drop_large(int from, int to, int bytes = 1400) const;
  /// Undoes drop, drop_large and lose.
  void heal(int node) const;
  /// What the node's own hosts file says of its own name.
  void set_host_address(int node, const std::string& address) const;
  /// Agents that are started there from now on read a kernel log of its own.
  void give_kernel_log(int node) const;
  /// The next line of that log.
  void write_kernel_log(int node, const std::string& line) const;
  /// Its steady clocks run so far ahead of the others', as if it had been booted earlier.
  void shift_boot_clock(int node, std::chrono::seconds by);
  /// A round trip between them, for what a test knows of the network.
  [[nodiscard]] bool reaches(int from, int to) const;

 private:
  [[nodiscard]] std::string name_of(int node) const;
  [[nodiscard]] std::string hosts_file(int node) const;
  [[nodiscard]] std::string kernel_log(int node) const;
  void write_hosts(int node, const std::string& own_address) const;

  std::string prefix_;
  std::filesystem::path scratch_;
  int size_;
  std::vector<std::chrono::seconds> ahead_;
};

/// The block about the root cause that an agent has printed, or "".
std::string report_of(const Running& agent);

/// How one agent ended.
struct AgentEnd {
  int code = -1000;                     // -n for signal n; -1000: it still ran
  std::chrono::milliseconds after{-1};  // since the fault
};

class ClusterTest : public ProcessTest {
 protected:
  using Agents = std::vector<std::unique_ptr<Running>>;

  /// `nodes` namespaces, or the test is skipped; `if (!make_nodes(2)) GTEST_SKIP() << why_not();`
  bool make_nodes(int nodes);
  [[nodiscard]] std::string why_not() const { return Cluster::why_not(); }
  [[nodiscard]] Cluster& cluster() const { return *cluster_; }

  /// ddp-launch on that node, with the flags of a job of all nodes: two fake workers, grace 2 s.
  /// Flags that are given come last, so they win.
  std::unique_ptr<Running> launch_on(int node,
                                     const std::string& verbs,
                                     const std::vector<std::string>& flags = {},
                                     const std::map<std::string, std::string>& environment = {});
  /// As launch_on, without a node rank and a number of nodes: a node of a job with spares.
  std::unique_ptr<Running> launch_unranked(
      int node,
      const std::string& verbs,
      const std::vector<std::string>& flags,
      const std::map<std::string, std::string>& environment = {});
  /// The same on every node. Node 0 comes first.
  Agents launch_everywhere(const std::string& verbs, const std::vector<std::string>& flags = {});
  /// Until every worker of every node has printed `text`: its agent shows it with its rank.
  static bool all_see(const Agents& agents, const std::string& text, int workers_per_node = 2);

  /// Reads what they print until all have ended. The times count from `begin`.
  static std::vector<AgentEnd> ends_of(const Agents& agents,
                                       std::chrono::steady_clock::time_point begin,
                                       std::chrono::milliseconds limit = kTestTimeout);
  /// Until that agent listens on port 29500 of its node.
  static bool listens(const Running& agent);
  /// Living workers of that node and what they have started: GROUP_RANK in their environment.
  [[nodiscard]] std::vector<pid_t> workers_of(int node_rank) const;
  /// All processes of this test on that agent's node, the agent among them.
  [[nodiscard]] std::vector<pid_t> processes_beside(const Running& agent) const;
  /// The worker of that rank, without what it has started; 0: none lives.
  [[nodiscard]] pid_t worker(int rank) const;
  /// To every worker of every node, at once.
  void signal_workers(int signal) const;
  /// Until none of them lives; -1 ms when one still did after `limit`.
  [[nodiscard]] std::chrono::milliseconds workers_gone(
      int node_rank,
      std::chrono::steady_clock::time_point begin,
      std::chrono::milliseconds limit = kTestTimeout) const;

 private:
  [[nodiscard]] std::vector<pid_t> alive_with(const std::string& entry) const;

  std::unique_ptr<Cluster> cluster_;
};

/// A silent node is given up (5 s), and its workers are gone: at most.
inline constexpr std::chrono::seconds kLostBound{6};
/// Every worker has a child and a daemon.
inline constexpr char kSpawnsChildAndDaemon[] = "spawn [ hold ] lose [ hold ] print ready hold";
/// Ends well when it is told to.
inline constexpr char kWaitsForSignal[] = "print ready wait USR1";

/// Passes if `took` is not negative and at most `bound`. Under a sanitizer any time passes.
testing::AssertionResult within(std::chrono::milliseconds took, std::chrono::milliseconds bound);

/// All codes are `code`, and nobody took longer than `limit`. Prints who did what when.
testing::AssertionResult all_end(const std::vector<AgentEnd>& ends,
                                 int code,
                                 std::chrono::milliseconds limit);

}  // namespace ddp::test
