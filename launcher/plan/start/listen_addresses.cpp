#include "launcher/plan/start/listen_addresses.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace ddp::launcher {
namespace {

/// Adds the named addresses to `own`; basic ones only if nothing else is named, as by localhost.
void add_named(ListenAddresses& where, const MasterAddress& master) {
  std::vector<std::string> basic;
  for (const auto& [text, is_loopback, is_own] : master.addresses) {
    const bool is_basic = std::ranges::count(where.basic, text) > 0;
    const bool is_any = text == "0.0.0.0" || text == "::";
    if (!is_any) (is_basic ? basic : where.own).push_back(text);
  }
  if (where.own.empty()) where.own = std::move(basic);
}

ListenAddresses of_one_node(const MasterAddress& master) {
  if (!master.problem.empty()) {
    throw SystemError("cannot resolve the master address " + master.name + ": " + master.problem +
                          ". Give an address of this node, or leave --master-addr out.",
                      exit_code::kRendezvous);
  }
  ListenAddresses where;
  add_named(where, master);
  return where;
}

/// Why a job of several nodes cannot listen at its master address alone.
std::string why_everywhere(const MasterAddress& master) {
  const std::string name = "the master address " + master.name;
  if (master.addresses.empty()) return name + " has no address here: " + master.problem;
  const std::string& first = master.addresses[0].text;
  if (std::ranges::all_of(master.addresses, &MasterAddress::Address::is_loopback)) {
    return name + " stands for " + first +
           " here, where no other node can reach it (see /etc/hosts)";
  }
  return name + (master.is_number ? "" : " (" + first + ")") + " is not one of this node's";
}

ListenAddresses of_several(const MasterAddress& master) {
  ListenAddresses where;
  if (master.is_for_this_machine) {
    add_named(where, master);  // such as 127.0.0.2
    return where;
  }
  for (const auto& [text, is_loopback, is_own] : master.addresses)
    if (!is_loopback && is_own) where.own.push_back(text);
  if (!where.own.empty()) return where;
  where.basic = {"0.0.0.0", "::"};
  where.notice = why_everywhere(master) + "; listening at all of this node's addresses instead";
  return where;
}

}  // namespace

ListenAddresses choose_listen_addresses(const MasterAddress& master, bool has_several_nodes) {
  return has_several_nodes ? of_several(master) : of_one_node(master);
}

}  // namespace ddp::launcher
