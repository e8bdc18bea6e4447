#include "launcher/plan/web/web_address.h"

#include <sys/socket.h>

#include "launcher/plan/endpoint_text.h"

namespace ddp::launcher {

bool WebAddress::is_loopback() const {
  return address.empty() || address == "::1" || address.starts_with("127.");
}

std::optional<WebAddress> parse_web_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const bool has_address = colon != std::string_view::npos;
  const std::optional<int> port = parse_port(has_address ? text.substr(colon + 1) : text);
  if (!port) return std::nullopt;
  if (!has_address) return WebAddress{"", *port};
  std::string address(text.substr(0, colon));
  if (address == "localhost") return WebAddress{"", *port};
  const bool is_bracketed = address.starts_with('[') && address.ends_with(']');
  if (is_bracketed) address = address.substr(1, address.size() - 2);
  if (!is_address(is_bracketed ? AF_INET6 : AF_INET, address)) return std::nullopt;
  return WebAddress{address, *port};
}

std::string page_url(const WebAddress& where,
                     int port,
                     const std::string& host,
                     const std::string& loopback) {
  std::string shown = where.address.empty() ? loopback : where.address;
  if (shown == "0.0.0.0" || shown == "::") shown = host;
  return "http://" + endpoint_text(shown, port) + "/";
}

}  // namespace ddp::launcher
