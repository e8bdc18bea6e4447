#include "tests/support/cluster.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

namespace ddp::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char kPrefix[] = "ddp-test-";

/// Through a shell, quietly. Returns whether it ended well.
bool shell(const std::string& script) {
  return std::system(("{ set -e\n" + script + "\n} >/dev/null 2>&1").c_str()) == 0;
}

void must(const std::string& script) {
  if (!shell(script)) throw std::runtime_error("cannot make the nodes of a test:\n" + script);
}

std::string inside(const std::string& name, const std::string& command) {
  return "ip netns exec " + name + " " + command + "\n";
}

/// Those of tests that were killed: the name holds the test's pid.
void remove_remains() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kPrefix, 0) != 0) continue;
    const pid_t pid = std::atoi(name.c_str() + sizeof kPrefix - 1);
    if (pid > 0 && state_of(pid).empty()) shell("ip netns del " + name);
  }
}

bool has_entry(const std::string& environment, const std::string& entry) {
  return ('\0' + environment).find('\0' + entry + '\0') != std::string::npos;
}

}  // namespace

// --- Cluster

std::string Cluster::why_not() {
  static const std::string reason = [] {
    if (!shell("command -v ip && command -v nft && command -v nsenter && command -v unshare"))
      return "needs iproute2, nftables and util-linux";
    const std::string name = kPrefix + std::to_string(::getpid()) + "-probe";
    const bool made =
        shell("ip netns add " + name + "\n" +
              inside(name, "ip link add name end0 type veth peer name end1") +
              inside(name, "ip link add name hub type bridge") +
              inside(name, "nft add table inet t") + inside(name, "unshare --uts --mount true"));
    shell("ip netns del " + name);
    return made ? "" : "this machine lets us make no network namespaces";
  }();
  return reason;
}

Cluster::Cluster(int nodes, const std::filesystem::path& scratch)
    : scratch_(scratch), size_(nodes), ahead_(static_cast<std::size_t>(nodes)) {
  static int number = 0;
  remove_remains();
  prefix_ = kPrefix + std::to_string(::getpid()) + "-" + std::to_string(++number) + "-";
  const std::string hub = prefix_ + "switch";
  // No delay until a port of the bridge forwards: a cable works once it is plugged in.
  must("ip netns add " + hub + "\n" + "ip -n " + hub +
       " link add name hub type bridge forward_delay 0\n" + "ip -n " + hub + " link set hub up");
  for (int node = 0; node < size_; ++node) {
    const std::string name = name_of(node);
    const std::string port = "port" + std::to_string(node);
    must("ip netns add " + name + "\n" + "ip -n " + hub + " link add name " + port +
         " type veth peer name eth0 netns " + name + "\n" + "ip -n " + hub + " link set " + port +
         " master hub up\n" + "ip -n " + name + " link set lo up\n" + "ip -n " + name +
         " address add " + address(node) + "/24 dev eth0\n" + "ip -n " + name +
         " link set eth0 up\n" + inside(name, "nft add table inet test") +
         inside(name, "nft add chain inet test in '{ type filter hook input priority 0; }'"));
    write_hosts(node, address(node));
  }
}

Cluster::~Cluster() {
  for (int node = 0; node < size_; ++node)
    shell("ip netns del " + name_of(node));
  shell("ip netns del " + prefix_ + "switch");
}

std::string Cluster::address(int node) {
  return "10.77.0." + std::to_string(node + 1);
}

std::string Cluster::host(int node) {
  return "node" + std::to_string(node);
}

std::string Cluster::name_of(int node) const {
  return prefix_ + host(node);
}

std::string Cluster::hosts_file(int node) const {
  return (scratch_ / ("hosts" + std::to_string(node))).string();
}

std::string Cluster::kernel_log(int node) const {
  return (scratch_ / ("kmsg" + std::to_string(node))).string();
}

void Cluster::write_hosts(int node, const std::string& own_address) const {
  std::ofstream file(hosts_file(node));
  file << "127.0.0.1 localhost\n";
  for (int other = 0; other < size_; ++other)
    file << (other == node ? own_address : address(other)) << ' ' << host(other) << '\n';
}

std::vector<std::string> Cluster::enter(int node) const {
  // Each step becomes the next one, so the pid is the command's own.
  std::vector<std::string> words{"/usr/bin/nsenter",
                                 "--net=/run/netns/" + name_of(node),
                                 "/usr/bin/unshare",
                                 "--uts",
                                 "--mount"};
  if (const auto ahead = ahead_[static_cast<std::size_t>(node)]; ahead.count() != 0) {
    const std::string seconds = std::to_string(ahead.count());
    for (const std::string& word :
         {std::string("--time"), "--monotonic=" + seconds, "--boottime=" + seconds})
      words.push_back(word);
  }
  for (const std::string& word :
       {std::string("/bin/sh"),
        std::string("-c"),
        std::string("hostname \"$1\" && mount --bind \"$2\" /etc/hosts && shift 2 && exec \"$@\""),
        std::string("sh"),
        host(node),
        hosts_file(node)})
    words.push_back(word);
  if (!std::filesystem::exists(kernel_log(node))) return words;
  for (const std::string& word :
       {std::string("/bin/sh"),
        std::string("-c"),
        std::string("mount --bind \"$1\" /dev/kmsg && shift && exec \"$@\""),
        std::string("sh"),
        kernel_log(node)})
    words.push_back(word);
  return words;
}

void Cluster::shift_boot_clock(int node, std::chrono::seconds by) {
  ahead_[static_cast<std::size_t>(node)] = by;
}

void Cluster::unplug(int node) const {
  must("ip -n " + prefix_ + "switch link set port" + std::to_string(node) + " down");
}

void Cluster::plug_in(int node) const {
  must("ip -n " + prefix_ + "switch link set port" + std::to_string(node) + " up");
}

void Cluster::drop(int from, int to) const {
  must(inside(name_of(to), "nft add rule inet test in ip saddr " + address(from) + " drop"));
}

void Cluster::drop_large(int from, int to, int bytes) const {
  must(inside(name_of(to),
              "nft add rule inet test in ip saddr " + address(from) + " meta length '>' " +
                  std::to_string(bytes) + " drop"));
}

void Cluster::lose(int node, int percent) const {
  must(inside(name_of(node),
              "nft add rule inet test in iifname eth0 numgen random mod 100 '<' " +
                  std::to_string(percent) + " drop"));
}

void Cluster::slow(int node, int kbit) const {
  const std::string filter = " root tbf rate " + std::to_string(kbit) + "kbit burst 3kb latency 1s";
  must("tc -n " + prefix_ + "switch qdisc replace dev port" + std::to_string(node) + filter +
       "\ntc -n " + name_of(node) + " qdisc replace dev eth0" + filter);
}

void Cluster::heal(int node) const {
  must(inside(name_of(node), "nft flush chain inet test in"));
}

void Cluster::set_host_address(int node, const std::string& address) const {
  write_hosts(node, address);
}

void Cluster::give_kernel_log(int node) const {
  std::ofstream file(kernel_log(node));
}

void Cluster::write_kernel_log(int node, const std::string& line) const {
  std::ofstream(kernel_log(node), std::ios::app) << "2,1,1,-;" << line << '\n';
}

bool Cluster::reaches(int from, int to) const {
  // Nobody listens there: a refusal is an answer too, silence is not.
  return shell(
      inside(name_of(from),
             "timeout 1 bash -c 'exec 3<>/dev/tcp/" + address(to) + "/9; exit 0' || test $? = 1"));
}

// --- ClusterTest

bool ClusterTest::make_nodes(int nodes) {
  if (!Cluster::why_not().empty()) return false;
  cluster_ = std::make_unique<Cluster>(nodes, scratch());
  return true;
}

std::unique_ptr<Running> ClusterTest::launch_on(
    int node,
    const std::string& verbs,
    const std::vector<std::string>& flags,
    const std::map<std::string, std::string>& environment) {
  std::vector<std::string> all{"--nnodes=" + std::to_string(cluster_->size()),
                               "--node-rank=" + std::to_string(node)};
  all.insert(all.end(), flags.begin(), flags.end());
  return launch_unranked(node, verbs, all, environment);
}

std::unique_ptr<Running> ClusterTest::launch_unranked(
    int node,
    const std::string& verbs,
    const std::vector<std::string>& flags,
    const std::map<std::string, std::string>& environment) {
  Command command{.arguments = cluster_->enter(node), .environment = environment};
  const bool preloads = environment.contains("LD_PRELOAD");
  for (const std::string& word : {std::string(preloads ? DDP_DYNAMIC_LAUNCH : DDP_LAUNCH),
                                  "--master-addr=" + Cluster::address(0),
                                  std::string("--nproc-per-node=2"),
                                  std::string("--grace=2s")})
    command.arguments.push_back(word);
  command.arguments.insert(command.arguments.end(), flags.begin(), flags.end());
  command.arguments.emplace_back(DDP_FAKE_WORKER);
  std::istringstream words(verbs);
  for (std::string word; words >> word;)
    command.arguments.push_back(word);
  return start(std::move(command));
}

ClusterTest::Agents ClusterTest::launch_everywhere(const std::string& verbs,
                                                   const std::vector<std::string>& flags) {
  Agents agents;
  for (int node = 0; node < cluster_->size(); ++node)
    agents.push_back(launch_on(node, verbs, flags));
  return agents;
}

bool ClusterTest::all_see(const Agents& agents, const std::string& text, int workers_per_node) {
  int rank = 0;
  for (std::size_t node = 0; node < agents.size(); ++node) {
    for (int local = 0; local < workers_per_node; ++local, ++rank) {
      const std::string prefix = "[" + std::to_string(node) + ":" + std::to_string(rank) + "] ";
      if (!agents[node]->sees(prefix + text)) return false;
    }
  }
  return true;
}

std::vector<AgentEnd> ClusterTest::ends_of(const Agents& agents,
                                           Clock::time_point begin,
                                           milliseconds limit) {
  std::vector<AgentEnd> ends(agents.size());
  std::size_t ended = 0;
  while (ended < agents.size() && Clock::now() < begin + limit) {
    for (std::size_t i = 0; i < agents.size(); ++i) {
      if (ends[i].after >= milliseconds(0)) continue;
      const std::string state = state_of(agents[i]->pid());
      if (state == "Z" || state.empty()) {
        ends[i].after = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
        ++ended;
      } else {
        agents[i]->read_for(milliseconds(1));
      }
    }
  }
  // A first thread that is a zombie can be waited for once the others are gone too (TSan has one).
  for (std::size_t i = 0; i < agents.size(); ++i)
    ends[i].code = agents[i]->wait(milliseconds(ends[i].after < milliseconds(0) ? 0 : 1000));
  return ends;
}

bool ClusterTest::listens(const Running& agent) {
  // Local address, remote address, state: 0A is LISTEN (proc(5)); 733C is 29500.
  const std::string table = "/proc/" + std::to_string(agent.pid()) + "/net/tcp";
  return eventually(
      [&] { return read_all(table).find(":733C 00000000:0000 0A") != std::string::npos; },
      kTestTimeout);
}

std::vector<pid_t> ClusterTest::alive_with(const std::string& entry) const {
  std::vector<pid_t> pids;
  for (const std::string& process : alive()) {
    const pid_t pid = std::atoi(process.c_str());
    if (has_entry(read_all("/proc/" + std::to_string(pid) + "/environ"), entry))
      pids.push_back(pid);
  }
  return pids;
}

std::vector<pid_t> ClusterTest::workers_of(int node_rank) const {
  return alive_with("GROUP_RANK=" + std::to_string(node_rank));
}

std::vector<pid_t> ClusterTest::processes_beside(const Running& agent) const {
  const auto network_of = [](pid_t pid) {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/net", ignored);
  };
  std::vector<pid_t> pids;
  for (const std::string& process : alive()) {
    const pid_t pid = std::atoi(process.c_str());
    if (network_of(pid) == network_of(agent.pid())) pids.push_back(pid);
  }
  return pids;
}

pid_t ClusterTest::worker(int rank) const {
  for (const pid_t pid : alive_with("RANK=" + std::to_string(rank))) {
    if (::getsid(pid) == pid) return pid;
  }
  return 0;
}

void ClusterTest::signal_workers(int signal) const {
  std::vector<pid_t> pids;
  for (int node = 0; node < cluster_->size(); ++node) {
    for (const pid_t pid : workers_of(node)) {
      if (::getsid(pid) == pid) pids.push_back(pid);
    }
  }
  for (const pid_t pid : pids)
    send_signal(pid, signal);
}

milliseconds ClusterTest::workers_gone(int node_rank,
                                       Clock::time_point begin,
                                       milliseconds limit) const {
  if (!eventually([&] { return workers_of(node_rank).empty(); }, limit)) return milliseconds(-1);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

std::string report_of(const Running& agent) {
  const std::size_t begin = agent.err().find("Root Cause (first observed failure):");
  if (begin == std::string::npos) return "";
  return agent.err().substr(begin, agent.err().find("\n====", begin) - begin);
}

testing::AssertionResult within(milliseconds took, milliseconds bound) {
  if (took >= milliseconds(0) && (kInstrumented || took <= bound))
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "took " << took.count() << " ms (-1: for ever), expected: " << bound.count() << " ms";
}

testing::AssertionResult all_end(const std::vector<AgentEnd>& ends, int code, milliseconds limit) {
  std::ostringstream text;
  bool good = true;
  for (std::size_t node = 0; node < ends.size(); ++node) {
    const AgentEnd& end = ends[node];
    text << "node " << node << ": code " << end.code << " after " << end.after.count() << " ms\n";
    good = good && end.code == code && within(end.after, limit);
  }
  std::cout << text.str() << std::flush;
  if (good) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "expected: code " << code << " within " << limit.count() << " ms\n"
         << text.str();
}

}  // namespace ddp::test
