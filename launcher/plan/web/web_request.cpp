#include "launcher/plan/web/web_request.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "launcher/plan/endpoint_text.h"

namespace ddp::launcher {
namespace {

struct Route {
  std::string_view path;
  WebPart part;
};

constexpr std::array<Route, 4> kRoutes{{
    {"/", WebPart::page},
    {"/events", WebPart::events},
    {"/api/status", WebPart::status},
    {"/metrics", WebPart::metrics},
}};

bool is_same_word(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  });
}

/// Decodes "%41" to "A". An invalid escape stays as it is.
std::string decode(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
    const char* const end = digits.data() + digits.size();
    const bool is_pair = text[i] == '%' && digits.size() == 2 &&
                         std::from_chars(digits.data(), end, value, 16).ptr == end;
    plain += is_pair ? static_cast<char>(value) : text[i];
    if (is_pair) i += 2;
  }
  return plain;
}

/// ":8080"; the number may be left out (RFC 3986, 3.2.3).
bool is_port(std::string_view text) {
  return text == ":" || (text.starts_with(':') && parse_port(text.substr(1)));
}

/// The name, or the address without its brackets; nothing: `host` has anything else in it.
std::optional<std::string_view> read_host(std::string_view host) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  };
  std::string_view name;
  if (host.starts_with('[')) {
    const std::size_t close = host.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    name = host.substr(1, close - 1);
    host.remove_prefix(std::min(host.size(), name.size() + 2));
    if (!is_address(AF_INET6, name)) return std::nullopt;
  } else {
    name = host.substr(0, host.find(':'));
    host.remove_prefix(name.size());
    if (name.empty() || !std::ranges::all_of(name, is_part)) return std::nullopt;
  }
  if (!host.empty() && !is_port(host)) return std::nullopt;
  return name;
}

}  // namespace

std::optional<std::string> presented_token(const WebRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view header = request.authorization;
  if (header.size() > kScheme.size() && is_same_word(header.substr(0, kScheme.size()), kScheme))
    return std::string(header.substr(kScheme.size()));
  std::string_view query = request.target;
  query.remove_prefix(std::min(query.find('?'), query.size()));
  while (!query.empty()) {
    query.remove_prefix(1);  // '?' or '&'
    const std::string_view pair = query.substr(0, query.find('&'));
    constexpr std::string_view kName = "token=";
    if (pair.starts_with(kName)) return decode(pair.substr(kName.size()));
    query.remove_prefix(pair.size());
  }
  return std::nullopt;
}

bool is_host(std::string_view host) {
  return read_host(host).has_value();
}

bool is_safe_host(std::string_view host) {
  const std::optional<std::string_view> name = read_host(host);
  if (!name) return false;
  return host.starts_with('[') || is_same_word(*name, "localhost") || is_address(AF_INET, *name);
}

WebDecision decide(const WebRequest& request, bool is_user, const IsToken& is_token) {
  const bool has_host = !request.host.empty();
  if (request.hosts > 1 || (has_host && !is_host(request.host)))
    return {400, {}, "Give one Host header: a name or an address, with a port or without."};
  const std::optional<std::string> token = presented_token(request);
  const bool has_token = token && is_token(*token);
  // Refuse a wrong token even from our own user: a link that works here must also work elsewhere.
  if (token && !has_token) return {401, {}, "This is not the token of the job."};
  if (!has_token && !is_user) {
    return {401,
            {},
            "Give the token of the job: /?token=TOKEN, or the header Authorization: Bearer TOKEN."};
  }
  if (!has_token && !is_safe_host(request.host))
    return {403, {}, "Ask by an address or by localhost, or give the token of the job."};
  if (request.method != "GET" && request.method != "HEAD")
    return {405, {}, "Only GET and HEAD are served."};
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  for (const Route& route : kRoutes)
    if (route.path == path) return {200, route.part, ""};
  return {404, {}, "There are /, /metrics, /api/status and /events."};
}

std::string_view reason_of(int status) {
  constexpr std::pair<int, std::string_view> kReasons[] = {
      {200, "OK"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {431, "Request Header Fields Too Large"},
      {503, "Service Unavailable"},
  };
  const auto found = std::ranges::find(kReasons, status, &std::pair<int, std::string_view>::first);
  return found == std::end(kReasons) ? "Error" : found->second;
}

}  // namespace ddp::launcher
