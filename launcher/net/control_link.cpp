#include "launcher/net/control_link.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cassert>
#include <utility>

#include "launcher/os/tcp_facts.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kPollInterval(
    5);                                       // between two checks of what the kernel has to send
constexpr std::size_t kLargestPacket = 9000;  // on networks; loopback has larger ones
constexpr std::size_t kSmallPacket = 32;      // after it: if only that one arrives, size matters

/// Errors are ignored, as the first read meets the same ones.
void set(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);
}

/// Source: tcp(7); the figures are those of the lease.
void make_lively(int fd) {
  constexpr int kKeepaliveSeconds = 1;
  constexpr int kProbes = 3;
  constexpr auto kMilliseconds = std::chrono::milliseconds(ControlLink::kSilence).count();
  // A heartbeat or a stop is small, and must not wait for the acknowledgement of earlier bytes
  // (Nagle).
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  // Keepalive probes are not sent while data waits for an acknowledgement, and then the default
  // is some 15 minutes (tcp_retries2): this bounds that case, too.
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(kMilliseconds));
}

std::string text_of(const tcp::endpoint& endpoint) {
  return plain(endpoint.address()).to_string();
}

/// Bytes that the other kernel has not acknowledged.
int on_the_way(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

}  // namespace

ControlLink::ControlLink(tcp::socket socket, std::unique_ptr<FrameCipher> cipher)
    : socket_(std::move(socket)),
      cipher_(std::move(cipher)),
      frames_(cipher_ ? kLongestSealed : kLongestFrame),
      last_heard_(Clock::now()) {
  make_lively(socket_.native_handle());
  boost::system::error_code error;  // if the peer is gone, the first read fails
  peer_address_ = text_of(socket_.remote_endpoint(error));
  own_address_ = text_of(socket_.local_endpoint(error));
  socket_.non_blocking(true, error);
}

ControlLink::~ControlLink() = default;

void ControlLink::start(OnFrame on_frame, OnGone on_gone) {
  on_frame_ = std::move(on_frame);
  on_gone_ = std::move(on_gone);
  asio::co_spawn(socket_.get_executor(), read_all(shared_from_this()), rethrow);
}

asio::awaitable<void> ControlLink::read_all(std::shared_ptr<ControlLink> /*it stays*/) {
  // Never call back from within start(). A link that was dropped before start() ends here, too.
  co_await asio::post(socket_.get_executor(), kResult);
  while (socket_.is_open()) {
    const auto [error] = co_await socket_.async_wait(tcp::socket::wait_read, kResult);
    if (error || !receive() || !deliver()) break;
  }
  // The callbacks may own objects that own this link.
  on_frame_ = nullptr;
  const OnGone on_gone = std::exchange(on_gone_, nullptr);
  if (on_gone && !why_gone_.empty()) on_gone(why_gone_);
}

/// Reads what is there, up to a limit, so that others get their turn. False: the link has ended.
bool ControlLink::receive() {
  std::array<char, 16 << 10> bytes;
  boost::system::error_code error;
  const std::size_t size = socket_.read_some(asio::buffer(bytes), error);
  if (error == asio::error::would_block) return true;
  if (error == asio::error::eof) {
    drop("closed by the other side");
  } else if (error) {
    drop(error.message());
  } else {
    last_heard_ = Clock::now();
    out_of_order_ = read_tcp_facts(socket_.native_handle()).out_of_order;
    frames_.feed(std::string_view(bytes.data(), size));
  }
  return !error;
}

/// False: the link has ended.
bool ControlLink::deliver() {
  while (const std::optional<std::string_view> frame = frames_.next()) {
    const std::optional<std::string> opened = cipher_ ? cipher_->open(*frame) : std::nullopt;
    if (cipher_ && !opened) {
      drop(kAlteredFrame);
    } else if (!on_frame_(opened ? std::string_view(*opened) : *frame)) {
      drop("it sent what is not a message of this version");
    }
    if (!socket_.is_open()) return false;  // also if the callback closed it
  }
  if (frames_.is_broken()) drop("it sent what is not a frame");
  return socket_.is_open();
}

void ControlLink::send(std::string_view frame) {
  send_in_pieces(frame, 0);
}

void ControlLink::send_heartbeat(std::string frame) {
  if (!socket_.is_open()) return;
  const int fd = socket_.native_handle();
  const std::size_t around = kFrameHeadBytes + (cipher_ ? kSealBytes : 0);
  const std::size_t packet = std::min(read_tcp_facts(fd).segment, kLargestPacket);
  // After other bytes it would not begin a packet, and its size would prove nothing about the path.
  const bool is_idle = unsent() == 0 && on_the_way(fd) == 0;
  if (!is_idle || packet < frame.size() + around) return send(frame);
  frame.resize(packet - around + kSmallPacket, ' ');
  send_in_pieces(frame, packet);
}

/// Writes the first `first` bytes, if any, alone, and the rest when the socket takes it: of one
/// write, the kernel may make one large packet that the network card cuts.
void ControlLink::send_in_pieces(std::string_view frame, std::size_t first) {
  assert(!frame.empty() && frame.size() <= kLongestFrame);
  if (!socket_.is_open() || is_broken_) return;
  const std::string sealed = cipher_ ? cipher_->seal(frame) : std::string();
  if (cipher_) frame = sealed;
  output_ += frame_head(frame.size());
  output_ += frame;
  write(first > 0 ? first : unsent());
  if (unsent() > kMaxQueued)
    drop("it does not read: " + std::to_string(unsent() >> 20) + " MiB wait for it");
}

std::string ControlLink::hint() {
  if (!socket_.is_open()) return "";
  const TcpFacts facts = read_tcp_facts(socket_.native_handle());
  const bool sends_in_vain = facts.resends && facts.has_passed;
  const bool misses_some = facts.out_of_order != out_of_order_;
  return sends_in_vain || misses_some ? kLargePacketsVanish : "";
}

/// Writes at most `most` bytes, as many as the socket takes, and continues when it takes more.
void ControlLink::write(std::size_t most) {
  if (is_writing_ || unsent() == 0 || !socket_.is_open()) return;
  boost::system::error_code error;
  sent_ += socket_.write_some(asio::buffer(output_.data() + sent_, most), error);
  if (error && error != asio::error::would_block) is_broken_ = true;  // read_all() learns why
  if (is_broken_ || unsent() == 0) {
    output_.clear();
    sent_ = 0;
    return;
  }
  if (sent_ > output_.size() / 2) output_.erase(0, std::exchange(sent_, 0));
  is_writing_ = true;
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& failure) {
                       self->is_writing_ = false;
                       if (!failure) self->write(self->unsent());
                     });
}

asio::awaitable<void> ControlLink::flush(Deadline deadline) {
  const std::shared_ptr<ControlLink> self = shared_from_this();
  asio::steady_timer timer(socket_.get_executor());
  while (socket_.is_open() && !is_broken_ && Clock::now() < deadline) {
    // Bytes in our kernel have not arrived: they are lost if the node's network fails, and after
    // close() nobody notices.
    if (unsent() == 0 && on_the_way(socket_.native_handle()) == 0) break;
    timer.expires_at(std::min(deadline, Clock::now() + kPollInterval));
    co_await timer.async_wait(kResult);
  }
}

/// Closes the socket, which ends read_all(), which then calls OnGone with the reason.
void ControlLink::drop(const std::string& why) {
  if (!socket_.is_open()) return;
  const std::string text = why + hint();
  close();
  why_gone_ = text;
}

void ControlLink::close() {
  why_gone_.clear();
  close_quietly(socket_);
}

}  // namespace ddp::launcher
