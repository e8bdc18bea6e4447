#include "worker/train/forward.h"

#include <torch/torch.h>

namespace ddp::worker {

Pass Forward::run(const Batch& batch, Mode mode) const {
  Pass pass;
  pass.batch = batch.to(device_);
  const Autocast low = precision_.autocast();
  if (pass.batch.input.is_floating_point()) pass.batch.input = precision_.input(pass.batch.input);
  for (const at::Tensor& output : task_.forward(pass.batch))
    pass.outputs.push_back(precision_.output(output));
  // parallel: data may have moved them.
  const at::Device there = pass.outputs.empty() ? device_ : pass.outputs[0].device();
  if (there != device_) pass.batch = pass.batch.to(there);
  pass.loss = mode == Mode::training ? task_.loss(pass.outputs, pass.batch)
                                     : task_.test_loss(pass.outputs, pass.batch);
  return pass;
}

}  // namespace ddp::worker
