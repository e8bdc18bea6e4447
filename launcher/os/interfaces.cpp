#include "launcher/os/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <optional>

#include "common/error.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {
namespace {

using Address = asio::ip::address;

/// Parses an address, without the interface that a link-local IPv6 address may name.
std::optional<Address> read_address(const std::string& text) {
  boost::system::error_code error;
  const Address address = asio::ip::make_address(text.substr(0, text.find('%')), error);
  if (error) return std::nullopt;
  return plain(address);
}

std::optional<Address> address_of(const sockaddr* generic) {
  if (generic != nullptr && generic->sa_family == AF_INET) {
    sockaddr_in in{};
    // Copied: a sockaddr may not be read as what it really is (strict aliasing).
    std::memcpy(&in, generic, sizeof in);
    return asio::ip::address_v4(ntohl(in.sin_addr.s_addr));
  }
  if (generic != nullptr && generic->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, generic, sizeof in);
    asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
    return asio::ip::address_v6(bytes);
  }
  return std::nullopt;
}

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Interfaces read_interfaces() {
  ifaddrs* all = nullptr;
  check(::getifaddrs(&all), "getifaddrs", "addresses of this node");
  return {all, &::freeifaddrs};
}

}  // namespace

std::set<asio::ip::address> own_addresses() {
  const Interfaces all = read_interfaces();
  std::set<asio::ip::address> addresses;
  for (const ifaddrs* entry = all.get(); entry != nullptr; entry = entry->ifa_next) {
    if (const std::optional<Address> address = address_of(entry->ifa_addr))
      addresses.insert(*address);
  }
  return addresses;
}

std::vector<std::string> list_interfaces() {
  const Interfaces all = read_interfaces();
  std::vector<std::string> list;
  for (const ifaddrs* entry = all.get(); entry != nullptr; entry = entry->ifa_next) {
    const std::optional<Address> address = address_of(entry->ifa_addr);
    if (!address || address->is_loopback()) continue;
    if (address->is_v6() && address->to_v6().is_link_local()) continue;
    list.push_back(std::string(entry->ifa_name) + " " + address->to_string());
  }
  return list;
}

std::string interface_of(const std::string& address) {
  const std::optional<Address> wanted = read_address(address);
  if (!wanted) return "";
  const Interfaces all = read_interfaces();
  for (const ifaddrs* entry = all.get(); entry != nullptr; entry = entry->ifa_next) {
    const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    // An interface has an entry for each of its addresses (getifaddrs(3)). All of 127.0.0.0/8
    // is ours, though 127.0.0.1 alone is listed.
    if (address_of(entry->ifa_addr) == wanted || (is_loopback && wanted->is_loopback()))
      return entry->ifa_name;
  }
  return "";
}

bool is_own_address(const std::string& address) {
  return !interface_of(address).empty();
}

}  // namespace ddp::launcher
