#include "worker/dist/sum_work.h"

#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>
#include <poll.h>

#include <chrono>
#include <utility>
#include <vector>

#include "worker/dist/polling.h"

namespace ddp::worker {
namespace {

class SumWork : public c10d::Work {
 public:
  explicit SumWork(TensorsFuture future) : future_(std::move(future)) {}

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->hasValue(); }
  std::exception_ptr exception() const override { return future_->exception_ptr(); }
  std::vector<at::Tensor> result() override { return future_->value().toTensorVector(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  bool wait(std::chrono::milliseconds timeout) override {
    using std::chrono::milliseconds;
    const auto begin = std::chrono::steady_clock::now();
    while (timeout != kNoTimeout && !future_->completed()) {
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited > timeout) TORCH_CHECK(false, "Operation timed out!");  // Gloo's text
      const milliseconds pause = pause_after(waited, milliseconds(1), milliseconds(10));
      ::poll(nullptr, 0, static_cast<int>(pause.count()));
    }
    future_->waitAndThrow();
    return true;
  }

 private:
  TensorsFuture future_;
};

}  // namespace

TensorsFuture new_tensors_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

c10::intrusive_ptr<c10d::Work> work_of(TensorsFuture future) {
  return c10::make_intrusive<SumWork>(std::move(future));
}

}  // namespace ddp::worker
