// At which addresses the one port of a job listens, decided from what its master address means on
// this node. Pure: the caller has resolved the name. Addresses are numeric, in their shortest form.
// Promises: loopback is always served, in IPv4 and IPv6, as far as this node has them. A job of one
// node serves nothing else but the address that the user named. If other nodes could not reach the
// named address, all addresses are served, with a line that says why.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

/// The master address, resolved on this node.
struct MasterAddress {
  struct Address {
    std::string text;
    bool is_loopback = false;
    bool is_own = false;  // of this node; only set with several nodes
  };
  std::string name;  // as given
  bool is_number = false;
  bool is_for_this_machine = false;  // not reachable from another machine
  std::vector<Address> addresses;
  std::string problem;  // why there are none
};

struct ListenAddresses {
  std::vector<std::string> basic{"127.0.0.1", "::1"};  // at least one must succeed
  std::vector<std::string> own;  // named by the user; if any, at least one must succeed
  std::string notice;            // for the user; empty: none
};

/// Errors: SystemError, 202 when a job of one node has a master address that cannot be resolved.
ListenAddresses choose_listen_addresses(const MasterAddress& master, bool has_several_nodes);

}  // namespace ddp::launcher
