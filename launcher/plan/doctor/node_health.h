// What the nodes of `ddp-launch doctor` report about themselves and about each other. Values.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/plan/doctor/gpu_findings.h"

namespace ddp::launcher {

/// What a node reports about itself.
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
  std::int64_t open_files = kUnlimited;       // soft limit; agents raise it to the hard limit
  std::int64_t most_open_files = kUnlimited;  // hard limit
  std::int64_t processes = kUnlimited;
  std::int64_t locked_bytes = kUnlimited;
  std::vector<std::string> gpus;        // models; "?": not known
  std::string driver;                   // of NVIDIA; empty: none
  GpuFindings gpu_findings;             // what the node has found at them
  std::vector<std::string> interfaces;  // "eth0 10.0.0.1", without loopback
  std::string address;                  // at which its workers are reached
  int port = 0;                         // on which it listens for checks; 0: none
  bool operator==(const NodeHealth&) const = default;
};

/// The address at which another node listens.
struct PeerAddress {
  int node_rank = 0;
  std::string address;
  int port = 0;
  bool operator==(const PeerAddress&) const = default;
};

/// One node's check of another node.
struct PeerCheck {
  int node_rank = 0;  // of the other
  std::string error;  // why it cannot be reached; empty: it can
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

/// Null: that node did not join.
inline const NodeHealth* find_node(std::span<const NodeHealth> nodes, int node_rank) {
  const auto found = std::ranges::find(nodes, node_rank, &NodeHealth::node_rank);
  return found == nodes.end() ? nullptr : &*found;
}

/// A node checks at most so many others, the next ones, as a message has a size limit.
inline constexpr std::size_t kMaxCheckedPeers = 1000;

/// The bytes sent to measure the bandwidth.
inline constexpr std::int64_t kDoctorBytes = std::int64_t{64} << 20;

}  // namespace ddp::launcher
