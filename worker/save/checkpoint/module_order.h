// The order of Python's state_dict: of each module its own parameters, its own buffers, then the
// modules in it. Checkpoints hold all parameters first, as C++ lists them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddp::worker {

/// Indices into `names`, in that order. `names` are dotted ("layer1.0.bn1.bias"): parameters, then
/// buffers, both in order of construction. A module without parameters, its own or below, comes
/// behind those that have some.
std::vector<std::size_t> module_order(std::span<const std::string> names);

}  // namespace ddp::worker
