// The hosts of --hosts and --hostfile, in the order of their node ranks. Pure text: nobody is asked
// whether a host is there. Promises: a name never reads as an option of ssh, and holds no character
// that means something to a shell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

struct Host {
  std::string login;           // as ssh takes it: "user@b", "b", "fe80::1%eth0"
  std::string address;         // the same without the user
  std::optional<int> workers;  // nothing: as --nproc-per-node says
  bool operator==(const Host&) const = default;
};

inline constexpr std::size_t kMaxHosts = 10000;

/// `a,b:4,user@c,[fe80::1]:2`. Errors: UsageError with every problem at once.
std::vector<Host> parse_hosts(std::string_view list);

/// One host per line: `a`, `a:4` or `a slots=4`; `#` begins a comment. `path` is for messages.
/// Errors: UsageError with every problem at once, each with its line.
std::vector<Host> parse_host_file(std::string_view text, const std::string& path);

}  // namespace ddp::launcher
