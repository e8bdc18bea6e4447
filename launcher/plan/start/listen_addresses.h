// Where the one port of a job listens, decided from what its master address stands for on this
// node. Promises: loopback is served in any case, in IPv4 and IPv6 or in the one that this node
// has, nothing else for a job of one node but what the user named; where others could not reach
// what was named, all addresses are served, with a line that says why. Pure: anyone who asks has
// resolved the name. Addresses are numeric, in their shortest form.
#pragma once

#include <string>
#include <vector>

namespace ddp::launcher {

/// The master address, looked up on this node.
struct MasterAddress {
  struct Address {
    std::string text;
    bool is_loopback = false;
    bool is_own = false;  // of this node; only asked in a job of several nodes
  };
  std::string name;  // as it is asked for
  bool is_number = false;
  bool is_for_this_machine = false;  // nobody on another machine reaches it
  std::vector<Address> addresses;
  std::string problem;  // why it has none
};

struct ListenAddresses {
  std::vector<std::string> basic{"127.0.0.1", "::1"};  // one of them has to succeed
  std::vector<std::string> own;  // named by the user: likewise, if there is any
  std::string notice;            // for the user; empty: none
};

/// Errors: SystemError, 202 when a job of one node has a master address that cannot be resolved.
ListenAddresses choose_listen_addresses(const MasterAddress& master, bool has_several_nodes);

}  // namespace ddp::launcher
