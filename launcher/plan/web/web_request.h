// What becomes of a request for the page of a job: which part of it is asked for, and whether
// anyone who asks may have it. Without the token it is for the user of this node who runs the job
// (and root), as `ddp-launch status` is; with the token, for everybody. Pure. Trap: a page of
// somebody else, open in the user's browser, reaches loopback too. It cannot read an answer of
// another origin (nothing here allows that); but by a name of its own that it lets point to
// 127.0.0.1 it would be of the same origin (DNS rebinding). So without the token the Host header
// has to be an address, or localhost.
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
  std::string host;           // the header; empty: none
  std::string authorization;  // likewise
  std::size_t hosts = 1;      // Host headers
};

enum class WebPart : std::uint8_t { page, events, status, metrics };

struct WebDecision {
  int status = 200;  // of HTTP
  WebPart part = WebPart::page;
  std::string text;  // of a refusal: why, and what to do
  bool operator==(const WebDecision&) const = default;
};

/// Whether a text is the job's token; false when it has none.
using IsToken = std::function<bool(std::string_view)>;

/// `is_user`: it comes from this node, by a process of ours or of root.
WebDecision decide(const WebRequest& request, bool is_user, const IsToken& is_token);

/// By "Authorization: Bearer TOKEN", or "?token=TOKEN".
std::optional<std::string> presented_token(const WebRequest& request);

/// Whether it is a name or an address, with a port or without (RFC 9110, 7.2). Nothing is guessed
/// of what is not: "127.0.0.1@evil" is no address.
bool is_host(std::string_view host);

/// Whether no other name than ours can stand there: an address, or localhost; any port.
bool is_safe_host(std::string_view host);

/// The reason of a status line.
std::string_view reason_of(int status);

}  // namespace ddp::launcher
