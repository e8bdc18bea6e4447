// What the nodes of `ddp-launch doctor` tell about themselves and about each other, as values.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

/// What a node tells about itself.
struct NodeHealth {
  static constexpr std::int64_t kUnlimited = -1;

  int node_rank = 0;
  std::string host;
  std::string version;  // of ddp-launch
  std::string kernel;   // "6.1.0-18-amd64"
  std::string machine;  // "x86_64"
  int cpus = 1;         // that a job may use
  std::int64_t memory_bytes = 0;
  std::int64_t shared_bytes = 0;              // of /dev/shm; 0: there is none
  std::int64_t open_files = kUnlimited;       // soft limit; agents raise it to the next
  std::int64_t most_open_files = kUnlimited;  // hard limit
  std::int64_t processes = kUnlimited;
  std::int64_t locked_bytes = kUnlimited;
  std::vector<std::string> gpus;        // models; "?" where it is not known
  std::string driver;                   // of NVIDIA; empty: none
  std::vector<std::string> interfaces;  // "eth0 10.0.0.1", without loopback
  std::string address;                  // that its workers are reached at
  int port = 0;                         // that it listens on for the checks; 0: not
  bool operator==(const NodeHealth&) const = default;
};

/// Where another node listens.
struct PeerPlace {
  int node_rank = 0;
  std::string address;
  int port = 0;
  bool operator==(const PeerPlace&) const = default;
};

/// One node's look at another one.
struct PeerCheck {
  int node_rank = 0;  // of the other
  std::string error;  // why it cannot be reached; empty: it was
  std::chrono::nanoseconds round_trip{0};
  std::chrono::nanoseconds clock_ahead{0};  // of the other node's wall clock
  double bytes_per_second = 0;              // sent to it; 0: not measured
  bool operator==(const PeerCheck&) const = default;
};

struct NodeChecks {
  int node_rank = 0;
  std::vector<PeerCheck> peers;
  bool operator==(const NodeChecks&) const = default;
};

/// Null: that node did not come.
inline const NodeHealth* find_node(std::span<const NodeHealth> nodes, int node_rank) {
  const auto found = std::ranges::find(nodes, node_rank, &NodeHealth::node_rank);
  return found == nodes.end() ? nullptr : &*found;
}

/// A node tries so many others at most, the next ones: the words of the nodes have a longest size.
inline constexpr std::size_t kMaxCheckedPeers = 1000;

/// How many bytes the bandwidth is measured by.
inline constexpr std::int64_t kDoctorBytes = std::int64_t{64} << 20;

}  // namespace ddp::launcher
