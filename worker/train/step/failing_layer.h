// Where in a model an operation of LibTorch fails. Its message has shapes and no name, and modules
// of C++ have no hooks: so the pass that failed is made once more, and its operations are watched.
#pragma once

#include <functional>
#include <string>

namespace torch::nn {
class Module;
}

namespace ddp::worker {

/// "features.3.conv: aten::conv2d of [2, 4, 8, 8] with weight [8, 3, 3, 3]": of the operations that
/// `again` fails in, the outermost that has a parameter of `model`. "": there is none, it does not
/// fail again, or it must not be called again, as norms may wait for other ranks in it. What
/// `again` throws is dropped.
std::string failing_layer(const torch::nn::Module& model, const std::function<void()>& again);

}  // namespace ddp::worker
