// Finds the layer of a model in which an operation of LibTorch fails. The error has shapes but no
// name, and C++ modules have no hooks, so the failed pass runs once more while its operations are
// watched.
#pragma once

#include <functional>
#include <string>

namespace torch::nn {
class Module;
}

namespace ddp::worker {

/// "features.3.conv: aten::conv2d of [2, 4, 8, 8] with weight [8, 3, 3, 3]": of the operations in
/// which `again` fails, the outermost that has a parameter of `model`. "": there is none, `again`
/// does not fail this time, or `again` must not run because norms may wait for other ranks in it.
/// Drops what `again` throws.
std::string failing_layer(const torch::nn::Module& model, const std::function<void()>& again);

}  // namespace ddp::worker
