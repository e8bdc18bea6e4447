// The messages between agents of `ddp-launch doctor` after joining, one frame each. The promises
// are those of message_codec.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

/// Node 0's command: check whether these nodes can be reached, except the receiver itself. With
/// `bytes` check only the next node, and measure how fast.
struct CheckPeers {
  int own_node_rank = 0;
  std::vector<PeerAddress> nodes;
  std::int64_t bytes = 0;
  bool operator==(const CheckPeers&) const = default;
};

/// Node 0's diagnosis: print it and leave. `text` is whole lines.
struct DoctorEnd {
  int exit_code = 0;
  std::string text;
  bool operator==(const DoctorEnd&) const = default;
};

/// A node sends NodeHealth, then answers each CheckPeers with NodeChecks, until DoctorEnd comes.
using DoctorMessage = std::variant<NodeHealth, CheckPeers, NodeChecks, DoctorEnd>;

std::string encode(const DoctorMessage& message);
std::optional<DoctorMessage> decode_doctor(std::string_view text);

}  // namespace ddp::launcher
