// The hosts of --hosts and --hostfile, in the order of their node ranks. Pure: no host is
// contacted. Promises: a name is never an option of ssh, and has no character with a meaning in a
// shell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

struct Host {
  std::string login;           // for ssh: "user@b", "b", "fe80::1%eth0"
  std::string address;         // the same without the user
  std::optional<int> workers;  // nothing: --nproc-per-node
  bool operator==(const Host&) const = default;
};

inline constexpr std::size_t kMaxHosts = 10000;

/// `a,b:4,user@c,[fe80::1]:2`. Errors: UsageError with every problem at once.
std::vector<Host> parse_hosts(std::string_view list);

/// One host per line: `a`, `a:4` or `a slots=4`; `#` begins a comment. `path` is for messages.
/// Errors: UsageError with every problem at once, each with its line.
std::vector<Host> parse_host_file(std::string_view text, const std::string& path);

}  // namespace ddp::launcher
