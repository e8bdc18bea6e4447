#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kMagic = "\xddPagt";  // then two bytes of version, one of flags
constexpr char kHasToken = 1;
constexpr std::size_t kKeptBytes = 4096;  // of an idle link's buffer

std::size_t read_big(std::string_view bytes) {
  std::size_t value = 0;
  for (const char byte : bytes)
    value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

std::string big(std::size_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i)
    text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

}  // namespace

std::string to_bytes(const AgentOpening& opening) {
  return std::string(kMagic) + big(static_cast<std::size_t>(opening.protocol), 2) +
         (opening.has_token ? kHasToken : '\0');
}

std::optional<AgentOpening> read_agent_opening(std::string_view bytes) {
  if (bytes.size() < kAgentOpeningBytes || !may_become_opening(bytes)) return std::nullopt;
  AgentOpening opening;
  opening.protocol = static_cast<int>(read_big(bytes.substr(kMagic.size(), 2)));
  opening.has_token = (bytes[kAgentOpeningBytes - 1] & kHasToken) != 0;
  return opening;
}

bool may_become_opening(std::string_view bytes) {
  const std::size_t size = bytes.size() < kMagic.size() ? bytes.size() : kMagic.size();
  return bytes.substr(0, size) == kMagic.substr(0, size);
}

std::string frame_head(std::size_t bytes) {
  return big(bytes, kFrameHeadBytes);
}

std::optional<std::size_t> read_frame_head(std::string_view head, std::size_t longest) {
  const std::size_t bytes = read_big(head.substr(0, kFrameHeadBytes));
  if (head.size() < kFrameHeadBytes || bytes == 0 || bytes > longest) return std::nullopt;
  return bytes;
}

std::optional<std::string_view> FrameDecoder::next() {
  const std::string_view left = std::string_view(input_).substr(taken_);
  if (!broken_ && left.size() >= kFrameHeadBytes) {
    const std::optional<std::size_t> size = read_frame_head(left, longest_);
    broken_ = !size;
    if (size && left.size() - kFrameHeadBytes >= *size) {
      taken_ += kFrameHeadBytes + *size;
      return left.substr(kFrameHeadBytes, *size);
    }
  }
  // Drop returned frames; less than one frame is left.
  input_.erase(0, taken_);
  taken_ = 0;
  if (broken_) input_.clear();
  if (input_.empty() && input_.capacity() > kKeptBytes) input_.shrink_to_fit();
  return std::nullopt;
}

}  // namespace ddp::launcher
