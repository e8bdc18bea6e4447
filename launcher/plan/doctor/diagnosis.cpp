#include "launcher/plan/doctor/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/text/join_words.h"
#include "common/text/split.h"
#include "common/text/text_table.h"
#include "common/text/units.h"

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kFewFiles = 1024;
constexpr std::int64_t kFewProcesses = 1024;
constexpr std::int64_t kDefaultShared = std::int64_t{64} << 20;  // of a container
constexpr std::int64_t kFewLocked = std::int64_t{64} << 20;
constexpr nanoseconds kClockNote = std::chrono::seconds(1);
constexpr std::size_t kMaxListed = 50;  // problems, and notes: a firewall stops many pairs
constexpr double kSlowLink = 120e6;     // bytes per second, nearly one gigabit

// Numbers of a node for tables, problems and notes.

/// "1 GPU", "2 GPUs".
std::string counted(std::size_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

/// "1024", or "no limit".
std::string limit_text(std::int64_t limit) {
  return limit == NodeHealth::kUnlimited ? "no limit" : std::to_string(limit);
}

/// "62.0 GiB", or "no limit".
std::string bytes_text(std::int64_t bytes) {
  return bytes == NodeHealth::kUnlimited ? "no limit" : format_bytes(bytes);
}

/// "0.2 ms", "1.5 s".
std::string time_text(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return std::abs(seconds) < 1 ? fmt::format("{:.3g} ms", seconds * 1e3)
                               : fmt::format("{:.1f} s", seconds);
}

std::string speed_text(double bytes_per_second) {
  return format_bytes(static_cast<std::int64_t>(bytes_per_second)) + "/s";
}

/// "node 1 (host)".
std::string name_of(const NodeHealth& node) {
  return "node " + std::to_string(node.node_rank) + " (" + node.host + ")";
}

/// "2 NVIDIA H200, 1 NVIDIA L4", or "none".
std::string gpu_text(const NodeHealth& node) {
  std::map<std::string, std::size_t> models;
  for (const std::string& gpu : node.gpus)
    ++models[gpu];
  if (models.empty()) return "none";
  return join_words(models, ", ", [](const auto& model) {
    return std::to_string(model.second) + " " + model.first;
  });
}

// The two tables.

/// That node's clock compared with node 0's, from node 0's check of it.
std::string clock_of(int node_rank, std::span<const NodeChecks> checks) {
  if (node_rank == 0) return "0";
  for (const NodeChecks& check : checks) {
    for (const PeerCheck& peer : check.peers) {
      const bool is_it = check.node_rank == 0 && peer.node_rank == node_rank;
      if (!is_it || !peer.error.empty()) continue;
      return (peer.clock_ahead.count() > 0 ? "+" : "") + time_text(peer.clock_ahead);
    }
  }
  return "-";
}

/// What each node is: one line for each, below a head.
std::string health_table(std::span<const NodeHealth> nodes) {
  std::vector<TextRow> rows{
      split_words("node, host, ddp-launch, kernel, machine, CPUs, memory, /dev/shm, open files, "
                  "processes, locked, GPUs, driver")};
  for (const NodeHealth& node : nodes) {
    rows.push_back({std::to_string(node.node_rank),
                    node.host,
                    node.version,
                    node.kernel,
                    node.machine,
                    std::to_string(node.cpus),
                    bytes_text(node.memory_bytes),
                    bytes_text(node.shared_bytes),
                    limit_text(node.open_files) + " of " + limit_text(node.most_open_files),
                    limit_text(node.processes),
                    bytes_text(node.locked_bytes),
                    gpu_text(node),
                    node.driver.empty() ? "none" : node.driver});
  }
  return text_table(rows);
}

/// How each node reaches the others, and a line that explains the columns.
std::string network_table(std::span<const NodeHealth> nodes, std::span<const NodeChecks> checks) {
  std::vector<TextRow> rows{
      {"node", "address", "interfaces", "reaches", "round trip", "clock", "to the next node"}};
  for (const NodeChecks& check : checks) {
    const NodeHealth* const node = find_node(nodes, check.node_rank);
    if (node == nullptr) continue;
    std::chrono::nanoseconds slowest{0};
    std::size_t reached = 0;
    double rate = 0;
    for (const PeerCheck& peer : check.peers) {
      if (!peer.error.empty()) continue;
      ++reached;
      slowest = std::max(slowest, peer.round_trip);
      rate = std::max(rate, peer.bytes_per_second);
    }
    rows.push_back({std::to_string(check.node_rank),
                    node->address,
                    join_words(node->interfaces),
                    std::to_string(reached) + " of " + std::to_string(check.peers.size()),
                    reached > 0 ? time_text(slowest) : "-",
                    clock_of(check.node_rank, checks),
                    rate > 0 ? speed_text(rate) : "-"});
  }
  return text_table(rows) + "round trip: the longest; clock: against node 0; to the next node: " +
         format_bytes(kDoctorBytes) +
         " by TCP from each node to its next one, all at once, as in the ring of an all-reduce\n";
}

class Doctor {
 public:
  Doctor(int expected, std::span<const NodeHealth> nodes, std::span<const NodeChecks> checks)
      : expected_(expected), nodes_(nodes), checks_(checks) {}

  Diagnosis run() {
    check_missing_nodes();
    for (const NodeHealth& node : nodes_)
      check_health(node);
    compare();
    for (const NodeChecks& check : checks_)
      check_peers(check);
    check_lost_nodes();
    std::string text = health_table(nodes_);
    if (!checks_.empty()) text += "\n" + network_table(nodes_, checks_);
    text += "\n";
    text += list("problem", problems_) + list("note", notes_);
    text += problems_.empty() ? "no problem found\n" : counted(problems_.size(), "problem") + "\n";
    return {std::move(text), static_cast<int>(problems_.size())};
  }

 private:
  static std::string list(const std::string& kind, const std::vector<std::string>& lines) {
    const std::size_t listed = std::min(lines.size(), kMaxListed);
    std::string text;
    for (std::size_t i = 0; i < listed; ++i)
      text += kind + ": " + lines[i] + "\n";
    if (listed < lines.size()) text += "and " + counted(lines.size() - listed, kind) + " more\n";
    return text;
  }

  void check_missing_nodes() {
    for (int rank = 0; rank < expected_; ++rank) {
      if (find_node(nodes_, rank) != nullptr) continue;
      problems_.push_back("node " + std::to_string(rank) +
                          " did not come. Start ddp-launch doctor --node-rank " +
                          std::to_string(rank) + " there, and let it reach node 0's port.");
    }
  }

  void check_health(const NodeHealth& node) {
    const std::string head = name_of(node) + ": ";
    const auto is_below = [](std::int64_t limit, std::int64_t least) {
      return limit != NodeHealth::kUnlimited && limit < least;
    };
    if (is_below(node.most_open_files, kFewFiles)) {
      problems_.push_back(head + "at most " + limit_text(node.most_open_files) +
                          " open files. Raise the hard limit (ulimit -Hn).");
    }
    if (is_below(node.processes, kFewProcesses)) {
      problems_.push_back(head + "at most " + limit_text(node.processes) +
                          " processes and threads. Raise the limit (ulimit -u).");
    }
    if (node.shared_bytes <= kDefaultShared) {
      problems_.push_back(head + "/dev/shm holds " + bytes_text(node.shared_bytes) +
                          ": data loaders and NCCL put their buffers there. Start the container "
                          "with --shm-size=1g or more, or mount a larger tmpfs.");
    }
    if (!node.gpus.empty() && node.driver.empty()) {
      problems_.push_back(head + "has " + counted(node.gpus.size(), "GPU") +
                          " but no driver's version (/proc/driver/nvidia/version). Load the "
                          "driver, or share it with the container.");
    }
    for (const std::string& problem : node.gpu_findings.problems)
      problems_.push_back(head + problem);
    for (const std::string& note : node.gpu_findings.notes)
      notes_.push_back(head + note);
    if (!node.gpus.empty() && is_below(node.locked_bytes, kFewLocked)) {
      notes_.push_back(head + "at most " + bytes_text(node.locked_bytes) +
                       " of locked memory. NCCL over InfiniBand wants no limit (ulimit -l "
                       "unlimited).");
    }
  }

  void check_lost_nodes() {
    for (const NodeChecks& check : checks_) {
      const NodeHealth* const node = find_node(nodes_, check.node_rank);
      if (node == nullptr || nodes_.size() < 2 || !check.peers.empty()) continue;
      problems_.push_back(
          name_of(*node) +
          " told nothing of the others: it was lost, or took too long. See what it printed there.");
    }
  }

  /// Compares what must be the same on all nodes.
  void compare() {
    compare(
        "versions of ddp-launch", true, "Install the same version.", [](const NodeHealth& node) {
          return node.version;
        });
    compare("machines", true, "Programs run on one of them.", [](const NodeHealth& node) {
      return node.machine;
    });
    compare("GPUs", false, "The slowest sets the pace.", gpu_text);
    compare("NVIDIA's drivers",
            false,
            "NCCL and CUDA may behave differently.",
            [](const NodeHealth& node) { return node.driver; });
  }

  template <typename Value>
  void compare(const std::string& what, bool is_problem, const std::string& advice, Value value) {
    std::map<std::string, std::string> nodes_of;
    for (const NodeHealth& node : nodes_)
      add_word(nodes_of[value(node)], std::to_string(node.node_rank), ",");
    if (nodes_of.size() < 2) return;
    const auto to_text = [](const auto& entry) {
      return (entry.first.empty() ? "none" : entry.first) + " (node " + entry.second + ")";
    };
    (is_problem ? problems_ : notes_)
        .push_back(what + " differ: " + join_words(nodes_of, ", ", to_text) + ". " + advice);
  }

  void check_peers(const NodeChecks& check) {
    const NodeHealth* const from = find_node(nodes_, check.node_rank);
    if (from == nullptr) return;
    for (const PeerCheck& peer : check.peers) {
      const NodeHealth* const to = find_node(nodes_, peer.node_rank);
      if (to == nullptr) continue;
      if (!peer.error.empty()) {
        problems_.push_back(name_of(*from) + " cannot reach " + name_of(*to) + " at " +
                            to->address + " port " + std::to_string(to->port) + ": " + peer.error +
                            ". Gloo and NCCL connect the workers of any two nodes, over ports that "
                            "the kernel picks: let all TCP between the nodes pass, both ways.");
        continue;
      }
      // Report each pair once, at its lower node.
      if (check.node_rank < peer.node_rank && std::chrono::abs(peer.clock_ahead) > kClockNote) {
        notes_.push_back("the clock of " + name_of(*to) + " is " +
                         time_text(std::chrono::abs(peer.clock_ahead)) +
                         (peer.clock_ahead.count() > 0 ? " ahead of" : " behind") + " that of " +
                         name_of(*from) +
                         ". Jobs do not mind; times in their logs will not match.");
      }
      if (peer.bytes_per_second > 0 && peer.bytes_per_second < kSlowLink) {
        notes_.push_back("from " + name_of(*from) + " to " + name_of(*to) + " go " +
                         speed_text(peer.bytes_per_second) +
                         ". The slowest link sets the pace of every all-reduce; is this the "
                         "right interface (--local-addr)?");
      }
    }
  }

  const int expected_;
  const std::span<const NodeHealth> nodes_;
  const std::span<const NodeChecks> checks_;
  std::vector<std::string> problems_;
  std::vector<std::string> notes_;
};

}  // namespace

Diagnosis diagnose(int expected,
                   std::span<const NodeHealth> nodes,
                   std::span<const NodeChecks> checks) {
  return Doctor(expected, nodes, checks).run();
}

}  // namespace ddp::launcher
