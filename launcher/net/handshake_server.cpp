#include "launcher/net/handshake_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/read.hpp>
#include <utility>

#include "launcher/net/auth.h"
#include "launcher/net/frame_io.h"
#include "launcher/plan/frames.h"
#include "launcher/plan/message_codec.h"

namespace ddp::launcher {
namespace {

constexpr const char* kSameToken =
    " Give the same token on all nodes, by --token-file or DDP_TOKEN.";

std::string other_version(int protocol) {
  return "node 0's agent speaks version " + std::to_string(kProtocolVersion) +
         " of the protocol between agents, this node's version " + std::to_string(protocol) +
         ". Install the same ddp-launch on all nodes.";
}

}  // namespace

/// Owned by the list and by the operations under way on its socket.
struct HandshakeServer::Visitor {
  Visitor(Slots::Id name, tcp::socket connection, std::string first_bytes)
      : id(name),
        socket(std::move(connection)),
        deadline(socket.get_executor(), kHandshake),
        bytes(std::move(first_bytes)) {
    boost::system::error_code ignored;
    address = plain(socket.remote_endpoint(ignored).address()).to_string();
  }

  const Slots::Id id;
  tcp::socket socket;
  asio::steady_timer deadline;
  std::string bytes;  // of the opening
  std::string address;
  AgentOpening opening;
  std::unique_ptr<FrameCipher> cipher;  // once both sides have proved that they know the token
  // What it came to:
  bool is_agent = false;
  std::string refusal;  // empty: none
  Hello hello;
};

HandshakeServer::HandshakeServer(
    asio::io_context& io, Secret token, int nodes, Notice notice, OnHello on_hello)
    : io_(io),
      token_(std::move(token)),
      notice_(std::move(notice)),
      on_hello_(std::move(on_hello)),
      slots_(most_guests(nodes), most_guests(nodes) / 2) {}

std::size_t HandshakeServer::most_guests(int nodes) {
  constexpr std::size_t kLeast = 64;
  return std::max(kLeast, 2 * static_cast<std::size_t>(nodes));
}

void HandshakeServer::admit(tcp::socket socket,
                            std::string first_bytes,
                            const std::string& source) {
  if (const auto dropped = slots_.find_to_drop(source)) leave(*visitors_.at(*dropped));
  const auto visitor =
      std::make_shared<Visitor>(++next_id_, std::move(socket), std::move(first_bytes));
  visitors_.emplace(visitor->id, visitor);
  slots_.take(visitor->id, source);
  visitor->deadline.async_wait([visitor](const boost::system::error_code& error) {
    boost::system::error_code ignored;
    if (!error) visitor->socket.close(ignored);
  });
  asio::co_spawn(io_, receive(visitor), rethrow);
}

asio::awaitable<void> HandshakeServer::receive(std::shared_ptr<Visitor> visitor) {
  co_await meet(*visitor);
  if (!visitor->refusal.empty()) co_await refuse(*visitor);
  visitor->deadline.cancel();
  const bool is_in_time = visitor->socket.is_open();
  const bool is_welcome = is_in_time && visitor->is_agent && visitor->refusal.empty();
  if (is_in_time && !visitor->is_agent) ++unknown_;
  std::shared_ptr<ControlLink> link;
  if (is_welcome) {
    link = std::make_shared<ControlLink>(std::move(visitor->socket), std::move(visitor->cipher));
  }
  leave(*visitor);
  if (is_welcome) on_hello_(std::move(visitor->hello), std::move(link));
}

/// Its connection is closed, and its place is free. It may have left already.
void HandshakeServer::leave(const Visitor& visitor) {
  slots_.release(visitor.id);
  const auto found = visitors_.find(visitor.id);
  if (found == visitors_.end()) return;
  boost::system::error_code ignored;
  found->second->socket.close(ignored);  // receive() sees it
  visitors_.erase(found);
}

asio::awaitable<void> HandshakeServer::meet(Visitor& visitor) {
  visitor.is_agent = co_await read_opening(visitor);
  if (!visitor.is_agent) co_return;
  slots_.note_progress(visitor.id);
  if (visitor.opening.protocol != kProtocolVersion) {
    visitor.refusal = other_version(visitor.opening.protocol);
  } else if (visitor.opening.has_token && token_.empty()) {
    visitor.refusal = std::string("this node has a token, node 0 has none.") + kSameToken;
  } else if (!visitor.opening.has_token && !token_.empty()) {
    visitor.refusal = std::string("node 0 asks for a token, this node has none.") + kSameToken;
  } else if (!token_.empty() && !co_await check_token(visitor)) {
    visitor.refusal = std::string("this node's token is not that of node 0.") + kSameToken;
  }
  if (!visitor.refusal.empty()) co_return;
  // Who has proved nothing may make us keep little; with a token both sides know each other by
  // now.
  const std::size_t longest = token_.empty() ? kLongestOpenHello : kLongestFrame;
  FrameCipher* const cipher = visitor.cipher.get();
  const std::string frame = co_await read_frame(visitor.socket, longest, cipher);
  std::optional<Hello> hello = decode_hello(frame);
  visitor.is_agent = hello && hello->protocol == kProtocolVersion;  // as its opening has said
  if (visitor.is_agent) visitor.hello = std::move(*hello);
  if (cipher == nullptr || !cipher->is_broken()) co_return;
  visitor.is_agent = true;
  visitor.refusal = std::string(kAlteredFrame) + ".";
}

/// False: it is not an agent.
asio::awaitable<bool> HandshakeServer::read_opening(Visitor& visitor) {
  while (visitor.bytes.size() < kAgentOpeningBytes && may_become_opening(visitor.bytes)) {
    std::array<char, kAgentOpeningBytes> piece;
    const auto room = asio::buffer(piece, kAgentOpeningBytes - visitor.bytes.size());
    const auto [error, size] = co_await visitor.socket.async_read_some(room, kResult);
    if (error) co_return false;
    visitor.bytes.append(piece.data(), size);
  }
  const std::optional<AgentOpening> opening = read_agent_opening(visitor.bytes);
  if (opening) visitor.opening = *opening;
  co_return opening.has_value();
}

/// True: it knows the token, and knows that we do; all else is said through the cipher.
asio::awaitable<bool> HandshakeServer::check_token(Visitor& visitor) {
  Transcript said;
  said.opening = visitor.bytes;
  // Fresh for every connection: a proof that was overheard is of no use for the next.
  said.coordinator = make_nonce();
  said.node = co_await read_frame(visitor.socket, kLongestUnproven);
  slots_.note_progress(visitor.id);
  co_await write_frame(visitor.socket, said.coordinator);
  const std::string proof = co_await read_frame(visitor.socket, kLongestUnproven);
  const bool is_right =
      said.node.size() == kNonceBytes && is_proof(proof, token_.text(), Prover::node, said);
  // Ours is not sent to who has not proved anything: nobody gets a proof to try tokens on at
  // home.
  if (!is_right) co_return false;
  slots_.release(visitor.id);  // it takes nobody's place any more, and nobody its
  const std::string ours = prove(token_.text(), Prover::coordinator, said);
  const bool is_sent = co_await write_frame(visitor.socket, ours);
  visitor.cipher = std::make_unique<FrameCipher>(token_.text(), Prover::coordinator, said);
  co_return is_sent;
}

asio::awaitable<void> HandshakeServer::refuse(Visitor& visitor) {
  if (!visitor.socket.is_open()) co_return;
  tell(visitor);
  Refusal refusal;
  refusal.text = visitor.refusal;
  const std::string frame = encode(refusal);
  FrameCipher* const cipher = visitor.cipher.get();
  const bool is_sent = co_await write_frame(visitor.socket, frame, cipher);
  boost::system::error_code error;
  visitor.socket.shutdown(tcp::socket::shutdown_send, error);
  // Until it has read that: closing with unread bytes would take the refusal back.
  std::array<char, 4096> ignored;
  while (is_sent && !error) {
    const auto [end, size] =
        co_await visitor.socket.async_read_some(asio::buffer(ignored), kResult);
    error = end;
  }
}

/// Not more often than every kBetweenLines: a peer may try again and again.
void HandshakeServer::tell(const Visitor& visitor) {
  ++untold_;
  if (Clock::now() < next_line_) return;
  next_line_ = Clock::now() + kBetweenLines;
  const std::size_t others = std::exchange(untold_, 0) - 1;
  notice_("an agent at " + visitor.address + " was refused: " + visitor.refusal +
          (others == 0 ? "" : " (" + std::to_string(others) + " others since the last such line)"));
}

void HandshakeServer::close() {
  while (!visitors_.empty())
    leave(*visitors_.begin()->second);
}

}  // namespace ddp::launcher
