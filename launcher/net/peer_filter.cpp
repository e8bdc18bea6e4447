#include "launcher/net/peer_filter.h"

#include <unistd.h>

#include <boost/asio/ip/network_v6.hpp>
#include <utility>

#include "launcher/os/descendants.h"
#include "launcher/os/interfaces.h"

namespace ddp::launcher {
namespace {

constexpr unsigned short kNetworkBits = 64;  // of IPv6: one host has them all

std::string source_of(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const auto network = asio::ip::make_network_v6(address.to_v6(), kNetworkBits);
  return network.canonical().to_string();
}

std::optional<asio::ip::address> read(const std::string& address) {
  boost::system::error_code error;
  const asio::ip::address number = asio::ip::make_address(address, error);
  if (error) return std::nullopt;
  return plain(number);
}

}  // namespace

PeerFilter::PeerFilter(Notice notice) : notice_(std::move(notice)), own_user_(::geteuid()) {}

void PeerFilter::allow_only(const std::set<std::string>& addresses) {
  const std::set<asio::ip::address> own = own_addresses();
  allowed_.clear();
  for (const std::string& address : addresses) {
    const auto number = read(address);
    if (number) allowed_.emplace(*number, number->is_loopback() || own.contains(*number));
  }
}

void PeerFilter::forbid(const std::string& address) {
  if (const auto number = read(address)) allowed_.erase(*number);
}

std::optional<Peer> PeerFilter::identify(const tcp::socket& socket) {
  boost::system::error_code error;
  const tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return std::nullopt;
  const tcp::endpoint own = socket.local_endpoint(error);
  Peer peer;
  peer.address = plain(remote.address());
  const auto allowed = allowed_.find(peer.address);
  // Agents of one job may share a machine, and then connect from one of its addresses.
  peer.is_here = peer.address.is_loopback() || peer.address == plain(own.address()) ||
                 (allowed != allowed_.end() && allowed->second);
  if (!peer.is_here) {
    peer.source = source_of(peer.address);
    return peer;
  }
  const PeerUsers::Owner seen = users_.owner_of(remote, own);
  // Its process has closed the socket or is gone, so there is nothing to serve.
  if (seen.can_tell && !seen.user) return std::nullopt;
  if (!seen.can_tell && !std::exchange(warned_no_peer_user_, true)) {
    notice_(
        "this system does not tell whose a connection is (neither sock_diag nor /proc/net/tcp): "
        "every user of this node can use this job's store.");
  }
  peer.user = seen.user;
  peer.source = "user " + (seen.user ? std::to_string(*seen.user) : "unknown");
  // The first worker of another user triggers an update; later ones are known then.
  if (may_change(peer) && Clock::now() >= next_update_) update_users();
  return peer;
}

bool PeerFilter::allows(const Peer& peer) const {
  if (!peer.is_here) return allowed_.contains(peer.address);
  // No user: this system does not show it; a warning was printed once. To refuse all would keep
  // every job from running.
  return !peer.user || *peer.user == own_user_ || *peer.user == 0 ||
         users_of_job_.contains(*peer.user);
}

bool PeerFilter::may_change(const Peer& peer) const {
  return peer.is_here && !allows(peer);
}

void PeerFilter::update_users() {
  users_of_job_ = users_of_descendants();
  next_update_ = Clock::now() + kCheckPause;
}

void PeerFilter::tell_refused(const Peer& peer) {
  if (!peer.user) return;  // of another node, where anyone may try
  ++unreported_;
  if (Clock::now() < next_line_) return;
  next_line_ = Clock::now() + kBetweenLines;
  const std::size_t others = std::exchange(unreported_, 0) - 1;
  notice_(
      "a process of user " + describe_user(*peer.user) +
      " tried to use this job's store; it was turned away" +
      (others == 0 ? "." : " (" + std::to_string(others) + " others since the last such line)."));
}

}  // namespace ddp::launcher
