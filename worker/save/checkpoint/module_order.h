// The order of Python's state_dict: for each module its own parameters, its own buffers, then its
// submodules. (Checkpoints hold all parameters first, as C++ lists them.)
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddp::worker {

/// Indices into `names`, in that order. `names` are dotted ("layer1.0.bn1.bias"): parameters, then
/// buffers, both in order of construction. Modules without any parameter, even in submodules, come
/// last.
std::vector<std::size_t> module_order(std::span<const std::string> names);

}  // namespace ddp::worker
