#include "launcher/os/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <optional>

#include "common/error.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {
namespace {

using Address = asio::ip::address;

/// Without the interface that a link-local IPv6 address may name.
std::optional<Address> read_address(const std::string& text) {
  boost::system::error_code error;
  Address address = asio::ip::make_address(text.substr(0, text.find('%')), error);
  if (error) return std::nullopt;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address;
}

std::optional<Address> address_of(const sockaddr* generic) {
  if (generic != nullptr && generic->sa_family == AF_INET) {
    sockaddr_in in{};
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

}  // namespace

std::vector<std::string> list_interfaces() {
  ifaddrs* all = nullptr;
  check(::getifaddrs(&all), "getifaddrs", "addresses of this node");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  std::vector<std::string> list;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
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
  ifaddrs* all = nullptr;
  check(::getifaddrs(&all), "getifaddrs", "addresses of this node");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (address_of(entry->ifa_addr) == wanted || (is_loopback && wanted->is_loopback())) {
      return entry->ifa_name;
    }
  }
  return "";
}

bool is_own_address(const std::string& address) {
  return !interface_of(address).empty();
}

}  // namespace ddp::launcher
