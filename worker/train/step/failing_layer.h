// Finds the layer of a model in which an operation of LibTorch fails. The error names shapes but no
// layer, and C++ modules have no hooks, so the failed pass runs once more while its operations are
// observed.
#pragma once

#include <functional>
#include <string>

namespace torch::nn {
class Module;
}

namespace ddp::worker {

/// "features.3.conv: aten::conv2d of [2, 4, 8, 8] with weight [8, 3, 3, 3]": of the operations in
/// which `again`, the pass, fails, the outermost one that has a parameter of `model` as input. "":
/// there is none, the pass does not fail this time, or it must not run again because norms may wait
/// for other ranks in it. Catches what `again` throws.
std::string failing_layer(const torch::nn::Module& model, const std::function<void()>& again);

}  // namespace ddp::worker
