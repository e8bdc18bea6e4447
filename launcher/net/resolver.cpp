#include "launcher/net/resolver.h"

#include <netdb.h>
#include <nss.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/node/probe_process.h"
#include "common/text/parse_whole.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/probe_query.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kLimit(60);

/// In the words of Asio, of an error of getaddrinfo(3).
std::string explain(int error) {
  switch (error) {
    case EAI_AGAIN:
      return asio::error::make_error_code(asio::error::host_not_found_try_again).message();
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
      return asio::error::make_error_code(asio::error::host_not_found).message();
    default:
      return asio::error::make_error_code(asio::error::no_recovery).message();
  }
}

void sort(std::vector<asio::ip::address>& list) {
  // getaddrinfo(3) has one entry for each kind of socket.
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

/// The addresses that the probe has found. Nothing: it has not answered completely.
std::optional<Addresses> read_addresses(const HelperAnswer& helper) {
  const ProbeAnswer answer = read_probe(helper.text);
  if (!answer.is_whole) return {};
  Addresses found;
  for (const auto& parts : answer.lines) {
    if (parts.size() != 2) continue;
    if (parts[0] == "error") found.problem = explain(parse_whole<int>(parts[1]).value_or(0));
    if (parts[0] != "address") continue;
    boost::system::error_code ignored;
    const asio::ip::address address = asio::ip::make_address(parts[1], ignored);
    if (!ignored) found.list.push_back(address);
  }
  sort(found.list);
  return found;
}

}  // namespace

asio::awaitable<Addresses> resolve_name(asio::io_context& io, std::string name) {
  boost::system::error_code error;
  const asio::ip::address number = asio::ip::make_address(name, error);
  Addresses found;
  if (!error) {
    found.list.push_back(number);
    co_return found;
  }
  ProbeQuery query(io, {"addresses", name}, kLimit);
  std::optional<Addresses> from_probe = read_addresses(co_await query.answer());
  if (from_probe) co_return std::move(*from_probe);
  // A static program cannot load the modules for other sources.
  __nss_configure_lookup("hosts", "files dns");
  tcp::resolver resolver(io);
  const auto [failure, entries] = co_await resolver.async_resolve(name, "", kResult);
  for (const auto& entry : entries)
    found.list.push_back(entry.endpoint().address());
  sort(found.list);
  if (failure) found.problem = failure.message();
  co_return found;
}

Addresses resolve_name(const std::string& name) {
  asio::io_context io(1);
  Addresses found;
  asio::co_spawn(io, resolve_name(io, name), [&](std::exception_ptr error, Addresses result) {
    rethrow(error);
    found = std::move(result);
  });
  io.run();
  return found;
}

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
    Addresses found = resolve_name(name);
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
