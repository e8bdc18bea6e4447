// Any text as a list of nodes: a problem, or names that are lists of themselves.
#include "common/node/node_list.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto list = ddp::read_node_list(ddp::fuzz::to_string(data, size));
  ddp::fuzz::require(list.names.empty() != list.problem.empty(), "names or a problem");
  ddp::fuzz::require(list.names.size() <= ddp::kMaxListedNodes, "a limit");
  for (const std::string& name : list.names) {
    const auto again = ddp::read_node_list(name);
    ddp::fuzz::require(again.names == std::vector{name}, "a name is a list of itself");
  }
  return 0;
}
