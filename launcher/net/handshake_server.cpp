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
struct HandshakeServer::Guest {
  Guest(Slots::Id name, tcp::socket connection, std::string first_bytes)
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
  if (const auto victim = slots_.find_victim(source)) leave(*guests_.at(*victim));
  const auto guest = std::make_shared<Guest>(++next_id_, std::move(socket), std::move(first_bytes));
  guests_.emplace(guest->id, guest);
  slots_.take(guest->id, source);
  guest->deadline.async_wait([guest](const boost::system::error_code& error) {
    boost::system::error_code ignored;
    if (!error) guest->socket.close(ignored);
  });
  asio::co_spawn(io_, receive(guest), rethrow);
}

asio::awaitable<void> HandshakeServer::receive(std::shared_ptr<Guest> guest) {
  co_await meet(*guest);
  if (!guest->refusal.empty()) co_await refuse(*guest);
  guest->deadline.cancel();
  const bool is_in_time = guest->socket.is_open();
  const bool is_welcome = is_in_time && guest->is_agent && guest->refusal.empty();
  if (is_in_time && !guest->is_agent) ++unknown_;
  std::shared_ptr<ControlLink> link;
  if (is_welcome) {
    link = std::make_shared<ControlLink>(std::move(guest->socket), std::move(guest->cipher));
  }
  leave(*guest);
  if (is_welcome) on_hello_(std::move(guest->hello), std::move(link));
}

/// Its connection is closed, and its place is free. It may have left already.
void HandshakeServer::leave(const Guest& guest) {
  slots_.release(guest.id);
  const auto found = guests_.find(guest.id);
  if (found == guests_.end()) return;
  boost::system::error_code ignored;
  found->second->socket.close(ignored);  // receive() sees it
  guests_.erase(found);
}

asio::awaitable<void> HandshakeServer::meet(Guest& guest) {
  guest.is_agent = co_await read_opening(guest);
  if (!guest.is_agent) co_return;
  slots_.note_progress(guest.id);
  if (guest.opening.protocol != kProtocolVersion) {
    guest.refusal = other_version(guest.opening.protocol);
  } else if (guest.opening.has_token && token_.empty()) {
    guest.refusal = std::string("this node has a token, node 0 has none.") + kSameToken;
  } else if (!guest.opening.has_token && !token_.empty()) {
    guest.refusal = std::string("node 0 asks for a token, this node has none.") + kSameToken;
  } else if (!token_.empty() && !co_await check_token(guest)) {
    guest.refusal = std::string("this node's token is not that of node 0.") + kSameToken;
  }
  if (!guest.refusal.empty()) co_return;
  // Who has proved nothing may make us keep little; with a token both sides know each other by
  // now.
  const std::size_t longest = token_.empty() ? kLongestOpenHello : kLongestFrame;
  FrameCipher* const cipher = guest.cipher.get();
  const std::string frame = co_await read_frame(guest.socket, longest, cipher);
  std::optional<Hello> hello = decode_hello(frame);
  guest.is_agent = hello && hello->protocol == kProtocolVersion;  // as its opening has said
  if (guest.is_agent) guest.hello = std::move(*hello);
  if (cipher == nullptr || !cipher->is_broken()) co_return;
  guest.is_agent = true;
  guest.refusal = std::string(kAlteredFrame) + ".";
}

/// False: it is not an agent.
asio::awaitable<bool> HandshakeServer::read_opening(Guest& guest) {
  while (guest.bytes.size() < kAgentOpeningBytes && may_become_opening(guest.bytes)) {
    std::array<char, kAgentOpeningBytes> piece;
    const auto room = asio::buffer(piece, kAgentOpeningBytes - guest.bytes.size());
    const auto [error, size] = co_await guest.socket.async_read_some(room, kResult);
    if (error) co_return false;
    guest.bytes.append(piece.data(), size);
  }
  const std::optional<AgentOpening> opening = read_agent_opening(guest.bytes);
  if (opening) guest.opening = *opening;
  co_return opening.has_value();
}

/// True: it knows the token, and knows that we do; all else is said through the cipher.
asio::awaitable<bool> HandshakeServer::check_token(Guest& guest) {
  Transcript said;
  said.opening = guest.bytes;
  // Fresh for every connection: a proof that was overheard is of no use for the next.
  said.coordinator = make_nonce();
  said.node = co_await read_frame(guest.socket, kLongestUnproven);
  slots_.note_progress(guest.id);
  co_await write_frame(guest.socket, said.coordinator);
  const std::string proof = co_await read_frame(guest.socket, kLongestUnproven);
  const bool is_right =
      said.node.size() == kNonceBytes && is_proof(proof, token_.text(), Prover::node, said);
  // Ours is not sent to who has not proved anything: nobody gets a proof to try tokens on at
  // home.
  if (!is_right) co_return false;
  slots_.release(guest.id);  // it takes nobody's place any more, and nobody its
  const std::string ours = prove(token_.text(), Prover::coordinator, said);
  const bool is_sent = co_await write_frame(guest.socket, ours);
  guest.cipher = std::make_unique<FrameCipher>(token_.text(), Prover::coordinator, said);
  co_return is_sent;
}

asio::awaitable<void> HandshakeServer::refuse(Guest& guest) {
  if (!guest.socket.is_open()) co_return;
  tell(guest);
  Refusal refusal;
  refusal.text = guest.refusal;
  const std::string frame = encode(refusal);
  FrameCipher* const cipher = guest.cipher.get();
  const bool is_sent = co_await write_frame(guest.socket, frame, cipher);
  boost::system::error_code error;
  guest.socket.shutdown(tcp::socket::shutdown_send, error);
  // Until it has read that: closing with unread bytes would take the refusal back.
  std::array<char, 4096> ignored;
  while (is_sent && !error) {
    const auto [end, size] = co_await guest.socket.async_read_some(asio::buffer(ignored), kResult);
    error = end;
  }
}

/// Not more often than every kBetweenLines: a peer may try again and again.
void HandshakeServer::tell(const Guest& guest) {
  ++untold_;
  if (Clock::now() < next_line_) return;
  next_line_ = Clock::now() + kBetweenLines;
  const std::size_t others = std::exchange(untold_, 0) - 1;
  notice_("an agent at " + guest.address + " was refused: " + guest.refusal +
          (others == 0 ? "" : " (" + std::to_string(others) + " others since the last such line)"));
}

void HandshakeServer::close() {
  while (!guests_.empty())
    leave(*guests_.begin()->second);
}

}  // namespace ddp::launcher
