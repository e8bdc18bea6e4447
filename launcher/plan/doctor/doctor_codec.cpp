#include "launcher/plan/doctor/doctor_codec.h"

#include "launcher/plan/wire/message_fields.h"

namespace ddp::launcher {
namespace wire {

constexpr Range kLimit{NodeHealth::kUnlimited, kLarge};
constexpr std::size_t kLongestDiagnosis = kLongestFrame / 3;  // a newline takes two bytes

template <typename Io>
void fields(Io& io, A<NodeHealth> auto& m) {
  io.field("node_rank", m.node_rank, kNode);
  io.field("host", m.host);
  io.field("version", m.version);
  io.field("kernel", m.kernel);
  io.field("machine", m.machine);
  io.field("cpus", m.cpus);
  io.field("memory", m.memory_bytes, kNotNegative);
  io.field("shared", m.shared_bytes, kNotNegative);
  io.field("open_files", m.open_files, kLimit);
  io.field("most_open_files", m.most_open_files, kLimit);
  io.field("processes", m.processes, kLimit);
  io.field("locked", m.locked_bytes, kLimit);
  io.field("gpus", m.gpus);
  io.field("driver", m.driver);
  io.field("gpu_problems", m.gpu_findings.problems);
  io.field("gpu_notes", m.gpu_findings.notes);
  io.field("interfaces", m.interfaces);
  io.field("address", m.address);
  io.field("port", m.port, kPort);
}

template <typename Io>
void fields(Io& io, A<PeerAddress> auto& m) {
  io.field("node_rank", m.node_rank, kNode);
  io.field("address", m.address);
  io.field("port", m.port, kPort);
}

template <typename Io>
void fields(Io& io, A<PeerCheck> auto& m) {
  io.field("node_rank", m.node_rank, kNode);
  io.field("error", m.error);
  io.field("round_trip", m.round_trip, kNotNegative);
  io.field("clock_ahead", m.clock_ahead, kSigned);
  io.field("rate", m.bytes_per_second);
}

template <typename Io>
void fields(Io& io, A<NodeChecks> auto& m) {
  io.field("node_rank", m.node_rank, kNode);
  io.field("peers", m.peers);
}

template <typename Io>
void fields(Io& io, A<CheckPeers> auto& m) {
  io.field("own_node_rank", m.own_node_rank, kNode);
  io.field("nodes", m.nodes);
  io.field("bytes", m.bytes, Range{0, kDoctorBytes});
}

template <typename Io>
void fields(Io& io, A<DoctorEnd> auto& m) {
  io.field("exit_code", m.exit_code, kCode);
  io.whole_text("text", m.text);
}

template <>
constexpr std::string_view kType<NodeHealth> = "health";
template <>
constexpr std::string_view kType<CheckPeers> = "look";
template <>
constexpr std::string_view kType<NodeChecks> = "checks";
template <>
constexpr std::string_view kType<DoctorEnd> = "diagnosis";

std::string write_any(DoctorEnd message) {
  if (message.text.size() > kLongestDiagnosis)
    message.text = cleaned(message.text, kLongestDiagnosis) + " (cut)\n";
  return write_message(message);
}
template <typename M>
std::string write_any(const M& message) {
  return write_message(message);
}

}  // namespace wire

std::string encode(const DoctorMessage& message) {
  return std::visit([](const auto& any) { return wire::write_any(any); }, message);
}

std::optional<DoctorMessage> decode_doctor(std::string_view text) {
  return wire::decode<DoctorMessage>(text);
}

}  // namespace ddp::launcher
