// The address at which the web page of a job is served: --web [ADDRESS:]PORT. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

struct WebAddress {
  std::string address;  // numeric, without brackets; empty: loopback, in IPv4 and IPv6
  int port = 0;         // 0: a free one
  bool operator==(const WebAddress&) const = default;

  /// Whether no other machine can reach it.
  [[nodiscard]] bool is_loopback() const;
};

/// "8080", "0.0.0.0:8080", "[::1]:8080", "localhost:8080". Nothing: not such a text.
std::optional<WebAddress> parse_web_address(std::string_view text);

/// "http://127.0.0.1:8080/", for people. `host` replaces an address that means all addresses;
/// `loopback` is this node's.
std::string page_url(const WebAddress& where,
                     int port,
                     const std::string& host,
                     const std::string& loopback);

}  // namespace ddp::launcher
