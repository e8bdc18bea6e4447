// The control link between two agents as bytes: an opening of 8 bytes, sent once by the node that
// connects, then frames both ways, each a u32 length (big endian) and so many bytes. Pure.
// Promises: every version can read any version's opening; a decoder holds no more than the bytes
// it was fed, whatever lengths they announce.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// The first bytes that a node sends. The first byte is not 0, unlike a store client's.
struct AgentOpening {
  int protocol = 0;
  bool has_token = false;  // the token handshake comes next, else a Hello
  bool operator==(const AgentOpening&) const = default;
};
inline constexpr std::size_t kAgentOpeningBytes = 8;

std::string to_bytes(const AgentOpening& opening);

/// Nothing: the sender is not an agent, or `bytes` are fewer than kAgentOpeningBytes.
std::optional<AgentOpening> read_agent_opening(std::string_view bytes);

/// Whether these bytes may be the beginning of an opening.
bool may_become_opening(std::string_view bytes);

inline constexpr std::size_t kFrameHeadBytes = 4;
inline constexpr std::size_t kLongestFrame = std::size_t{1} << 20;
/// What encryption adds (net/frame_cipher): a tag to each frame, the stream's header to the first.
inline constexpr std::size_t kSealBytes = 17;
inline constexpr std::size_t kSealHeadBytes = 24;
inline constexpr std::size_t kLongestSealed = kLongestFrame + kSealBytes + kSealHeadBytes;

/// The length that stands before a frame of so many bytes.
std::string frame_head(std::size_t bytes);

/// The length that four bytes announce; nothing when it is 0 or above `longest`.
std::optional<std::size_t> read_frame_head(std::string_view head,
                                           std::size_t longest = kLongestFrame);

/// Decodes bytes, in pieces of any size, into frames.
class FrameDecoder {
 public:
  explicit FrameDecoder(std::size_t longest = kLongestFrame) : longest_(longest) {}

  void feed(std::string_view bytes) { input_.append(bytes); }

  /// The next whole frame, without its length; valid until the next call. Nothing: more bytes are
  /// needed, or is_broken().
  std::optional<std::string_view> next();

  /// Whether an impossible length came. Then next() returns nothing more; close the connection.
  [[nodiscard]] bool is_broken() const { return broken_; }

  [[nodiscard]] std::size_t held() const { return input_.capacity(); }

 private:
  std::size_t longest_;
  std::string input_;
  std::size_t taken_ = 0;  // bytes of input_ already returned
  bool broken_ = false;
};

}  // namespace ddp::launcher
