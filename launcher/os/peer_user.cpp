#include "launcher/os/peer_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fmt/format.h>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

#include "common/node/users.h"

namespace ddp::launcher {
namespace {

/// What a source shows of one socket.
struct Found {
  uid_t user = 0;
  std::uint64_t inode = 0;  // 0: no holder
};
enum class Answer { found, absent, failed };

/// Network byte order, as both sources have them.
template <typename Words>
void copy_address(const asio::ip::address& address, Words& words) {
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(&words, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(&words, bytes.data(), bytes.size());
  }
}

struct Question {
  nlmsghdr head;
  inet_diag_req_v2 body;
};

Question ask_for(const tcp::endpoint& socket, const tcp::endpoint& remote, std::uint32_t sequence) {
  const asio::ip::address address = plain(socket.address());
  Question question{};
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  question.head.nlmsg_seq = sequence;
  question.body.sdiag_family = address.is_v4() ? AF_INET : AF_INET6;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0U;
  inet_diag_sockid& id = question.body.id;
  id.idiag_sport = htons(socket.port());
  id.idiag_dport = htons(remote.port());
  copy_address(address, id.idiag_src);
  copy_address(plain(remote.address()), id.idiag_dst);
  if (address.is_v6()) id.idiag_if = static_cast<std::uint32_t>(address.to_v6().scope_id());
  // No cookie: only a repeated query has one, from its first answer (sock_diag(7)).
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

/// The kernel answers within send(2), so this never waits.
Answer ask_netlink(int fd, const Question& question, Found& found) {
  if (::send(fd, &question, sizeof question, 0) != static_cast<ssize_t>(sizeof question))
    return Answer::failed;
  std::array<char, 8192> bytes;
  nlmsghdr head{};
  ssize_t size = 0;
  do {  // skip answers to older queries that failed
    size = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < static_cast<ssize_t>(sizeof head)) return Answer::failed;
    std::memcpy(&head, bytes.data(), sizeof head);
  } while (head.nlmsg_seq != question.head.nlmsg_seq);
  const char* const payload = bytes.data() + NLMSG_HDRLEN;
  const std::size_t left = static_cast<std::size_t>(size) - NLMSG_HDRLEN;
  if (head.nlmsg_type == NLMSG_ERROR && left >= sizeof(nlmsgerr)) {
    nlmsgerr error{};
    std::memcpy(&error, payload, sizeof error);
    return error.error == -ENOENT ? Answer::absent : Answer::failed;
  }
  inet_diag_msg socket{};
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || left < sizeof socket) return Answer::failed;
  std::memcpy(&socket, payload, sizeof socket);
  // Without such a connection the kernel returns a socket that listens at that port.
  const bool is_it = socket.id.idiag_sport == question.body.id.idiag_sport &&
                     socket.id.idiag_dport == question.body.id.idiag_dport;
  if (!is_it) return Answer::absent;
  found.user = socket.idiag_uid;
  found.inode = socket.idiag_inode;
  return Answer::found;
}

/// "0100007F:7530", as the tables have it: the words of the address as this machine reads them.
std::string as_in_table(const tcp::endpoint& endpoint, bool is_mapped) {
  const asio::ip::address address = plain(endpoint.address());
  // The kernel prints words of four bytes as numbers in the machine's byte order, although they are
  // in network order: on a little-endian machine each word looks reversed.
  std::array<std::uint32_t, 4> words{};
  std::size_t count = 4;
  if (is_mapped) {
    // ::ffff:a.b.c.d, as a socket of IPv6 sees a peer of IPv4 (ipv6(7)).
    words[2] = htonl(0xffff);
    copy_address(address, words[3]);
  } else {
    copy_address(address, words);
    if (address.is_v4()) count = 1;
  }
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += fmt::format("{:08X}", words[i]);
  return text + fmt::format(":{:04X}", endpoint.port());
}

Answer search(const char* table, const std::string& pair, Found& found) {
  std::ifstream lines(table);
  std::string line;
  if (!std::getline(lines, line)) return Answer::failed;  // no heading
  while (std::getline(lines, line)) {
    if (line.find(pair) == std::string::npos) continue;
    std::istringstream fields(line);
    std::string number, own, remote, state, queues, timer, retransmits, timeout;
    Found read;
    fields >> number >> own >> remote >> state >> queues >> timer >> retransmits >> read.user >>
        timeout >> read.inode;
    if (!fields) continue;
    found = read;
    return Answer::found;
  }
  return Answer::absent;
}

Answer read_tables(const tcp::endpoint& socket, const tcp::endpoint& remote, Found& found) {
  const bool is_v4 = plain(socket.address()).is_v4();
  const auto pair = [&](bool is_mapped) {
    return as_in_table(socket, is_mapped) + " " + as_in_table(remote, is_mapped);
  };
  if (!is_v4) return search("/proc/net/tcp6", pair(false), found);
  const Answer answer = search("/proc/net/tcp", pair(false), found);
  if (answer != Answer::absent) return answer;
  // An IPv6 socket may use IPv4; and without IPv6 this table does not exist.
  return search("/proc/net/tcp6", pair(true), found) == Answer::found ? Answer::found
                                                                      : Answer::absent;
}

}  // namespace

PeerUsers::PeerUsers()
    : netlink_(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

PeerUsers PeerUsers::from_files() {
  return PeerUsers(-1);
}

PeerUsers::Owner PeerUsers::owner_of(const tcp::endpoint& peer, const tcp::endpoint& own) {
  const auto ask = [this](const tcp::endpoint& socket, const tcp::endpoint& remote, Found& found) {
    return netlink_ ? ask_netlink(netlink_.fd(), ask_for(socket, remote, ++sequence_), found)
                    : read_tables(socket, remote, found);
  };
  Found found;
  const Answer answer = ask(peer, own, found);
  if (netlink_ && !is_proven_) {
    Found listener;
    const tcp::endpoint nobody(own.protocol(), 0);
    is_proven_ = answer == Answer::found || ask(own, nobody, listener) == Answer::found;
    if (!is_proven_) {
      netlink_ = Descriptor();
      return owner_of(peer, own);
    }
  }
  Owner seen;
  seen.can_tell = netlink_ || answer != Answer::failed;
  // Inode 0: the process has closed the socket or is gone.
  if (answer == Answer::found && found.inode != 0) seen.user = found.user;
  return seen;
}

std::string describe_user(uid_t user) {
  const std::string number = std::to_string(user);
  const std::optional<ListedUser> listed = find_user(user);
  return listed ? number + " (" + listed->name + ")" : number;
}

}  // namespace ddp::launcher
