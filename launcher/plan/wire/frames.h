// The control link between two agents as bytes: an opening of 8 bytes, said once by the node that
// connects, then frames both ways, each a u32 length (big endian) and so many bytes. Pure.
// Promises: every version can read any version's opening; a decoder holds no more than the bytes
// it was fed, whatever lengths they announce.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

/// What a node says first. Its first byte is not 0, so it is not a client of the store.
struct AgentOpening {
  int protocol = 0;
  bool has_token = false;  // the token handshake comes next, else a Hello
  bool operator==(const AgentOpening&) const = default;
};
inline constexpr std::size_t kAgentOpeningBytes = 8;

std::string to_bytes(const AgentOpening& opening);

/// Nothing: anyone who sends this is not an agent, or `bytes` are fewer than kAgentOpeningBytes.
std::optional<AgentOpening> read_agent_opening(std::string_view bytes);

/// Whether more bytes can make an opening of these.
bool may_become_opening(std::string_view bytes);

inline constexpr std::size_t kFrameHeadBytes = 4;
inline constexpr std::size_t kLongestFrame = std::size_t{1} << 20;
/// What sealing adds to a frame (net/frame_cipher): to each its tag, to the first the stream's
/// head.
inline constexpr std::size_t kSealBytes = 17;
inline constexpr std::size_t kSealHeadBytes = 24;
inline constexpr std::size_t kLongestSealed = kLongestFrame + kSealBytes + kSealHeadBytes;

/// The length that stands before a frame of so many bytes.
std::string frame_head(std::size_t bytes);

/// The length that four bytes announce; nothing when it is 0 or above `longest`.
std::optional<std::size_t> read_frame_head(std::string_view head,
                                           std::size_t longest = kLongestFrame);

/// From bytes in any pieces to frames.
class FrameDecoder {
 public:
  explicit FrameDecoder(std::size_t longest = kLongestFrame) : longest_(longest) {}

  void feed(std::string_view bytes) { input_.append(bytes); }

  /// The next frame that is there as a whole, without its length; valid until the next call.
  /// Nothing: more bytes are needed, or it is broken.
  std::optional<std::string_view> next();

  /// A length came that no frame has. Nothing more comes out; the connection is to be closed.
  [[nodiscard]] bool is_broken() const { return broken_; }

  [[nodiscard]] std::size_t held() const { return input_.capacity(); }

 private:
  std::size_t longest_;
  std::string input_;
  std::size_t taken_ = 0;  // of input_
  bool broken_ = false;
};

}  // namespace ddp::launcher
