// What the agents of `ddp-launch doctor` tell each other once they have joined, one frame each. The
// promises are those of message_codec.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/plan/doctor/node_health.h"

namespace ddp::launcher {

/// Node 0's command: look whether these can be reached, the receiver itself left out; with `bytes`
/// only the next one, and how fast.
struct CheckPeers {
  int own_node_rank = 0;
  std::vector<PeerPlace> nodes;
  std::int64_t bytes = 0;
  bool operator==(const CheckPeers&) const = default;
};

/// Node 0 has all it wants: print it and leave. Its text is whole lines.
struct DoctorEnd {
  int exit_code = 0;
  std::string text;
  bool operator==(const DoctorEnd&) const = default;
};

/// A node tells NodeHealth, then answers each CheckPeers by NodeChecks, until DoctorEnd comes.
using DoctorMessage = std::variant<NodeHealth, CheckPeers, NodeChecks, DoctorEnd>;

std::string encode(const DoctorMessage& message);
std::optional<DoctorMessage> decode_doctor(std::string_view text);

}  // namespace ddp::launcher
