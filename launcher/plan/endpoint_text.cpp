#include "launcher/plan/endpoint_text.h"

#include <arpa/inet.h>

#include <array>
#include <cstdint>

#include "common/text/parse_whole.h"

namespace ddp::launcher {

std::string endpoint_text(const std::string& address, int port) {
  const bool is_v6 = address.find(':') != std::string::npos;
  return (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

std::optional<int> parse_port(std::string_view text) {
  return parse_whole<std::uint16_t>(text);
}

bool is_address(int family, std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return text.find('\0') == std::string_view::npos &&
         ::inet_pton(family, std::string(text).c_str(), bytes.data()) == 1;
}

}  // namespace ddp::launcher
