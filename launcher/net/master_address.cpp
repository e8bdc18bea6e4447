#include "launcher/net/master_address.h"

#include <set>
#include <utility>

#include "launcher/net/names.h"
#include "launcher/os/asio.h"
#include "launcher/os/interfaces.h"

namespace ddp::launcher {

bool is_for_this_machine(const std::string& master_addr) {
  boost::system::error_code error;
  const asio::ip::address number = asio::ip::make_address(master_addr, error);
  return error ? master_addr == "localhost" : plain(number).is_loopback();
}

MasterAddress look_up_master(const std::string& name, bool asks_whose) {
  MasterAddress master;
  master.name = name;
  master.is_for_this_machine = is_for_this_machine(name);
  boost::system::error_code error;
  const asio::ip::address number = asio::ip::make_address(name, error);
  master.is_number = !error;
  std::set<asio::ip::address> addresses;
  if (master.is_number) {
    addresses = {plain(number)};
  } else if (name == "localhost") {
    addresses = {asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
  } else {
    Addresses found = find_addresses(name);
    addresses.insert(found.list.begin(), found.list.end());
    master.problem = std::move(found.problem);
  }
  for (const asio::ip::address& address : addresses) {
    const std::string text = address.to_string();
    const bool is_loopback = address.is_loopback();
    const bool is_own = asks_whose && !is_loopback && is_own_address(text);
    master.addresses.push_back({text, is_loopback, is_own});
  }
  return master;
}

}  // namespace ddp::launcher
