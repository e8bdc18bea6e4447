// Names of a model's outputs in an archive of torch.export.
#pragma once

#include <boost/json/value.hpp>

#include <string>
#include <vector>

namespace ddp::worker {

/// The names of all leaves, in order. `spec`: Python's structure of outputs as torch.utils._pytree
/// writes it: {"type": "builtins.dict", "context": "[\"main\"]", "children_spec": [...]}; a leaf
/// has the type null. The name of an output inside another is "outer.inner"; without a key, its
/// place is its name; an output that is alone has none. Errors: those of Boost.JSON.
std::vector<std::string> output_names(const boost::json::value& spec);

}  // namespace ddp::worker
