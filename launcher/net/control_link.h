// The connection between node 0's agent and the agent of another node: one for the whole job, no
// reconnect (TCP resends; its end means that the other agent is dead). Frames as in
// plan/wire/frames.h; in a job with a token each is sealed (net/frame_cipher). Promises: send()
// never waits. A peer that does not read is dropped when kMaxQueued bytes wait for it, a peer that
// sends nonsense at once; OnGone is called once. Heartbeats are as large as packets can be, so that
// a path on which large packets vanish is noticed.
// Trap: closing a socket with unread bytes resets the connection, and bytes that the kernel still
// has to send are lost (RFC 2525, 2.17). So flush() waits for the other node's kernel, and a failed
// write does not close the link: bytes that came before are read first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/net/frame_cipher.h"
#include "launcher/os/asio.h"
#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {

inline constexpr const char* kLargePacketsVanish =
    "; small packets pass, large ones do not: is the MTU of something on the way smaller than that "
    "of the nodes' interfaces (ip link)?";

/// Owners: its user, and the operations under way on its socket, which close() ends.
class ControlLink : public std::enable_shared_from_this<ControlLink> {
 public:
  /// Takes one whole frame, valid during the call. False: it is nonsense, and the link is dropped.
  using OnFrame = std::function<bool(std::string_view)>;
  /// Called once, when the link has ended by itself: "closed by the other side", "does not read",
  /// ...
  using OnGone = std::function<void(const std::string&)>;

  /// Sets TCP_NODELAY, keepalive and TCP_USER_TIMEOUT: a silent peer is gone after kSilence.
  /// `cipher`: from the handshake; null: frames are sent in plain.
  explicit ControlLink(tcp::socket socket, std::unique_ptr<FrameCipher> cipher = nullptr);
  ~ControlLink();

  /// Begins to read. The callbacks are called from the loop, never from within a call to the link,
  /// and are released when the link has ended.
  void start(OnFrame on_frame, OnGone on_gone);

  /// Sends one frame, of 1 byte to kLongestFrame. No effect on a link that has ended.
  void send(std::string_view frame);

  /// Sends the frame of each second, JSON padded with blanks to one packet of the largest size and
  /// a small one, unless earlier bytes are still under way. So a path on which large packets vanish
  /// falls silent, even if no message is large.
  void send_heartbeat(std::string frame);

  /// "; small packets pass, large ones do not: ...", for a peer that has fallen silent; empty: no
  /// sign of that.
  [[nodiscard]] std::string hint();

  /// Suspends: until the other node's kernel has all frames, or the link has ended, at most until
  /// `deadline`.
  asio::awaitable<void> flush(Deadline deadline);

  /// Closes the link. No callback is called any more.
  void close();

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  /// When bytes last came.
  [[nodiscard]] Clock::time_point last_heard() const { return last_heard_; }
  /// Numeric.
  [[nodiscard]] const std::string& peer_address() const { return peer_address_; }
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

  static constexpr std::size_t kMaxQueued = std::size_t{4} << 20;
  static constexpr std::chrono::seconds kSilence{5};

 private:
  asio::awaitable<void> read_all(std::shared_ptr<ControlLink> self);
  bool receive();
  bool deliver();
  void send_in_pieces(std::string_view frame, std::size_t first);
  void write(std::size_t most);
  void drop(const std::string& why);
  [[nodiscard]] std::size_t unsent() const { return output_.size() - sent_; }

  tcp::socket socket_;
  std::string peer_address_;
  std::string own_address_;
  OnFrame on_frame_;
  OnGone on_gone_;
  const std::unique_ptr<FrameCipher> cipher_;  // null: there is no token
  FrameDecoder frames_;
  std::string output_;
  std::size_t sent_ = 0;  // of output_
  bool is_writing_ = false;
  bool is_broken_ = false;  // writing has failed
  std::string why_gone_;    // empty: close() was called, or the link lives
  Clock::time_point last_heard_;
  std::uint32_t out_of_order_ = 0;  // packets out of order, at that time
};

}  // namespace ddp::launcher
