// The addresses of names, as the system finds them: the probe asks its modules (/etc/hosts, DNS,
// mDNS, LDAP and so on). Where the probe cannot run, as in an image without glibc, /etc/hosts and
// DNS are asked here.
#pragma once

#include <string>
#include <vector>

#include "launcher/os/asio.h"

namespace ddp::launcher {

struct Addresses {
  std::vector<asio::ip::address> list;  // each once, sorted
  std::string problem;                  // why there is none; empty: there is one
};

/// A number is its own address. Suspends: until the system has answered, which takes at most a
/// minute. Errors: SystemError when no process can be started.
asio::awaitable<Addresses> find_addresses(asio::io_context& io, std::string name);

/// The same. Blocks.
Addresses find_addresses(const std::string& name);

}  // namespace ddp::launcher
