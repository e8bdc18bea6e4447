// The c10d::Work of a call through shared memory: it ends when its future is completed.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace ddp::worker {

using TensorsFuture = c10::intrusive_ptr<c10::ivalue::Future>;

/// A future of a list of tensors.
TensorsFuture new_tensors_future();

/// wait() throws the future's error. Trap: that of c10d::Work::create_from_future() does not, so
/// its caller would continue with unsummed data.
c10::intrusive_ptr<c10d::Work> work_of(TensorsFuture future);

}  // namespace ddp::worker
