#include "launcher/net/handshake_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/read.hpp>
#include <utility>

#include "launcher/net/auth.h"
#include "launcher/net/frame_io.h"
#include "launcher/plan/wire/frames.h"
#include "launcher/plan/wire/message_codec.h"

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

/// Owners: the map, and the operations under way on its socket.
struct HandshakeServer::Peer {
  Peer(ConnectionSlots::Id name, tcp::socket connection, std::string first_bytes)
      : id(name),
        socket(std::move(connection)),
        deadline(socket.get_executor(), kProveWithin),
        bytes(std::move(first_bytes)) {
    boost::system::error_code ignored;
    address = plain(socket.remote_endpoint(ignored).address()).to_string();
  }

  const ConnectionSlots::Id id;
  tcp::socket socket;
  asio::steady_timer deadline;
  std::string bytes;  // of the opening
  std::string address;
  AgentOpening opening;
  std::unique_ptr<FrameCipher> cipher;  // after both sides have proved the token
  // The result:
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
      slots_(most_unproven(nodes), most_unproven(nodes) / 2) {}

std::size_t HandshakeServer::most_unproven(int nodes) {
  constexpr std::size_t kLeast = 64;
  return std::max(kLeast, 2 * static_cast<std::size_t>(nodes));
}

void HandshakeServer::admit(tcp::socket socket,
                            std::string first_bytes,
                            const std::string& source) {
  if (const auto dropped = slots_.find_to_drop(source)) leave(*peers_.at(*dropped));
  const auto peer = std::make_shared<Peer>(++next_id_, std::move(socket), std::move(first_bytes));
  peers_.emplace(peer->id, peer);
  slots_.take(peer->id, source);
  peer->deadline.async_wait([peer](const boost::system::error_code& error) {
    if (!error) close_quietly(peer->socket);
  });
  asio::co_spawn(io_, receive(peer), rethrow);
}

asio::awaitable<void> HandshakeServer::receive(std::shared_ptr<Peer> peer) {
  co_await meet(*peer);
  if (!peer->refusal.empty()) co_await refuse(*peer);
  peer->deadline.cancel();
  const bool is_in_time = peer->socket.is_open();
  const bool is_welcome = is_in_time && peer->is_agent && peer->refusal.empty();
  if (is_in_time && !peer->is_agent) ++unknown_;
  std::shared_ptr<ControlLink> link;
  if (is_welcome)
    link = std::make_shared<ControlLink>(std::move(peer->socket), std::move(peer->cipher));
  leave(*peer);
  if (is_welcome) on_hello_(std::move(peer->hello), std::move(link));
}

/// Closes the peer's connection and frees its slot, if it is still here.
void HandshakeServer::leave(const Peer& peer) {
  slots_.release(peer.id);
  const auto found = peers_.find(peer.id);
  if (found == peers_.end()) return;
  close_quietly(found->second->socket);  // which ends receive()
  peers_.erase(found);
}

asio::awaitable<void> HandshakeServer::meet(Peer& peer) {
  peer.is_agent = co_await read_opening(peer);
  if (!peer.is_agent) co_return;
  slots_.note_progress(peer.id);
  if (peer.opening.protocol != kProtocolVersion) {
    peer.refusal = other_version(peer.opening.protocol);
  } else if (peer.opening.has_token && token_.empty()) {
    peer.refusal = std::string("this node has a token, node 0 has none.") + kSameToken;
  } else if (!peer.opening.has_token && !token_.empty()) {
    peer.refusal = std::string("node 0 asks for a token, this node has none.") + kSameToken;
  } else if (!token_.empty() && !co_await check_token(peer)) {
    peer.refusal = std::string("this node's token is not that of node 0.") + kSameToken;
  }
  if (!peer.refusal.empty()) co_return;
  // A peer without proof may make us store only a little. With a token it is proved by now.
  const std::size_t longest = token_.empty() ? kLongestOpenHello : kLongestFrame;
  FrameCipher* const cipher = peer.cipher.get();
  const std::string frame = co_await read_frame(peer.socket, longest, cipher);
  std::optional<Hello> hello = decode_hello(frame);
  peer.is_agent = hello && hello->protocol == kProtocolVersion;  // as in its opening
  if (peer.is_agent) peer.hello = std::move(*hello);
  if (cipher == nullptr || !cipher->is_broken()) co_return;
  peer.is_agent = true;
  peer.refusal = std::string(kAlteredFrame) + ".";
}

/// False: the peer is not an agent.
asio::awaitable<bool> HandshakeServer::read_opening(Peer& peer) {
  while (peer.bytes.size() < kAgentOpeningBytes && may_become_opening(peer.bytes)) {
    std::array<char, kAgentOpeningBytes> piece;
    const auto room = asio::buffer(piece, kAgentOpeningBytes - peer.bytes.size());
    const auto [error, size] = co_await peer.socket.async_read_some(room, kResult);
    if (error) co_return false;
    peer.bytes.append(piece.data(), size);
  }
  const std::optional<AgentOpening> opening = read_agent_opening(peer.bytes);
  if (opening) peer.opening = *opening;
  co_return opening.has_value();
}

/// True: both sides have proved the token; all further frames are encrypted.
asio::awaitable<bool> HandshakeServer::check_token(Peer& peer) {
  Transcript said;
  said.opening = peer.bytes;
  // A fresh nonce for every connection, so that an overheard proof is useless for the next one.
  said.coordinator = make_nonce();
  said.node = co_await read_frame(peer.socket, kLongestUnproven);
  slots_.note_progress(peer.id);
  co_await write_frame(peer.socket, said.coordinator);
  const std::string proof = co_await read_frame(peer.socket, kLongestUnproven);
  const bool is_right =
      said.node.size() == kNonceBytes && is_proof(proof, token_.text(), Prover::node, said);
  // Never send our proof to an unproven peer, which could try tokens against it offline.
  if (!is_right) co_return false;
  slots_.release(peer.id);  // a proven peer needs no slot
  const std::string ours = prove(token_.text(), Prover::coordinator, said);
  const bool is_sent = co_await write_frame(peer.socket, ours);
  peer.cipher = std::make_unique<FrameCipher>(token_.text(), Prover::coordinator, said);
  co_return is_sent;
}

asio::awaitable<void> HandshakeServer::refuse(Peer& peer) {
  if (!peer.socket.is_open()) co_return;
  notify(peer);
  Refusal refusal;
  refusal.text = peer.refusal;
  const std::string frame = encode(refusal);
  FrameCipher* const cipher = peer.cipher.get();
  const bool is_sent = co_await write_frame(peer.socket, frame, cipher);
  boost::system::error_code error;
  peer.socket.shutdown(tcp::socket::shutdown_send, error);
  // Read until the peer has closed: closing with unread bytes would lose the refusal.
  std::array<char, 4096> ignored;
  while (is_sent && !error) {
    const auto [end, size] = co_await peer.socket.async_read_some(asio::buffer(ignored), kResult);
    error = end;
  }
}

/// Prints at most one line per kBetweenLines, as a peer may try again and again.
void HandshakeServer::notify(const Peer& peer) {
  ++unreported_;
  if (Clock::now() < next_line_) return;
  next_line_ = Clock::now() + kBetweenLines;
  const std::size_t others = std::exchange(unreported_, 0) - 1;
  notice_("an agent at " + peer.address + " was refused: " + peer.refusal +
          (others == 0 ? "" : " (" + std::to_string(others) + " others since the last such line)"));
}

void HandshakeServer::close() {
  while (!peers_.empty())
    leave(*peers_.begin()->second);
}

}  // namespace ddp::launcher
