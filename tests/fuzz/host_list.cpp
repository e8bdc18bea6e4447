// Any list of hosts and any host file: refused, or hosts that ssh takes as hosts, each of them
// once.
#include "launcher/plan/hosts/host_list.h"

#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

using ddp::fuzz::require;
using ddp::launcher::Host;

void check(const std::vector<Host>& hosts) {
  require(!hosts.empty() && hosts.size() <= ddp::launcher::kMaxHosts, "some hosts, not too many");
  std::set<std::string> addresses;
  for (const Host& host : hosts) {
    require(addresses.insert(host.address).second, "a host is there once");
    require(!host.address.empty() && host.login.ends_with(host.address), "a login has an address");
    require(host.login.front() != '-' && host.address.front() != '-', "no option of ssh");
    require(!host.workers || *host.workers > 0, "workers are counted from 1");
    for (const char c : host.login)
      require(
          c > 0x20 && c < 0x7f && std::string("'\"\\`$;&|<>()*?!#~/").find(c) == std::string::npos,
          "nothing that a shell acts on");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = ddp::fuzz::to_string(data, size);
  try {
    check(ddp::launcher::parse_hosts(text));
  } catch (const ddp::UsageError&) {
  }
  try {
    check(ddp::launcher::parse_host_file(text, "f"));
  } catch (const ddp::UsageError&) {
  }
  return 0;
}
