#include "worker/dist/comm_hook.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include <utility>
#include <vector>

namespace ddp::worker {
namespace {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

class Compress final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  Compress(at::ScalarType type, ProcessGroup group)
      : c10d::CppCommHookInterface<ProcessGroup>(std::move(group)), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor buffer = bucket.getBuffer();
    std::vector<at::Tensor> compressed{buffer.div_(state_->getSize()).to(type_)};
    // Copies back into the bucket, because the gradients are views of it.
    const auto decompress = [buffer](c10::ivalue::Future& sent) {
      buffer.copy_(sent.value().toTensorVector().at(0));
      return c10::IValue(std::vector<at::Tensor>{buffer});
    };
    return state_->allreduce(compressed)
        ->getFuture()
        ->then(decompress, c10::ListType::create(c10::TensorType::get()));
  }

 private:
  at::ScalarType type_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> compress_gradients(at::ScalarType type,
                                                            ProcessGroup group) {
  return std::make_unique<Compress>(type, std::move(group));
}

}  // namespace ddp::worker
