// Decides a request for the web page of a job: which part it asks for, and whether the client may
// have it. Without the token only the user who runs the job (and root) on this node may, as with
// `ddp-launch status`; with the token everyone may. Pure.
// Trap: a foreign page in the user's browser can reach loopback, too. It cannot read an answer of
// another origin (nothing here allows that). But if a name of its own points to 127.0.0.1, it has
// the same origin (DNS rebinding). So without the token the Host header must be an address, or
// localhost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

struct WebRequest {
  std::string method;
  std::string target;         // "/api/status?token=..."
  std::string host;           // its header; empty: none
  std::string authorization;  // its header; empty: none
  std::size_t hosts = 1;      // Host headers
};

enum class WebPart : std::uint8_t { page, events, status, metrics };

struct WebDecision {
  int status = 200;  // HTTP status
  WebPart part = WebPart::page;
  std::string text;  // of a refusal: the reason, and what to do
  bool operator==(const WebDecision&) const = default;
};

/// Whether a text is the job's token; false if the job has none.
using IsToken = std::function<bool(std::string_view)>;

/// `is_user`: the client is a process on this node, of our user or root.
WebDecision decide(const WebRequest& request, bool is_user, const IsToken& is_token);

/// The token in "Authorization: Bearer TOKEN" or "?token=TOKEN".
std::optional<std::string> presented_token(const WebRequest& request);

/// Whether `host` is a name or an address, with a port or without (RFC 9110, 7.2). The match is
/// exact: "127.0.0.1@evil" is not an address.
bool is_host(std::string_view host);

/// Whether `host` is an address or localhost, which no foreign name can be; any port.
bool is_safe_host(std::string_view host);

/// The reason phrase of an HTTP status.
std::string_view reason_of(int status);

}  // namespace ddp::launcher
