#include "worker/train/step/forward.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "common/error.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/step/failing_layer.h"

namespace ddp::worker {

/// `batch` is on the model's device; its input is cast to the dtype that the model takes.
Outputs Forward::outputs_of(Batch& batch) const {
  if (batch.input.is_floating_point()) batch.input = precision_.input(batch.input);
  Outputs outputs;
  for (const at::Tensor& output : task_.forward(batch))
    outputs.push_back(precision_.output(output));
  return outputs;
}

void Forward::throw_with_layer(const c10::Error& error, Batch& batch) const try {
  throw_as_user_code_error(error);
} catch (const UserCodeError& own) {
  const std::string where = failing_layer(task_.model(), [&] { (void)outputs_of(batch); });
  std::string text = own.what();
  if (!where.empty()) text.insert(std::min(text.find('\n'), text.size()), " (in " + where + ")");
  throw UserCodeError(text, own.stack());
}

Outputs Forward::outputs(const Batch& batch) const {
  Batch there = batch.to(device_);
  const Autocast autocast = precision_.autocast();
  return outputs_of(there);
}

Pass Forward::run(const Batch& batch, Mode mode, std::optional<std::uint64_t> seed) const {
  Pass pass;
  pass.batch = batch.to(device_);
  if (seed) pass.batch = task_.transform_batch(pass.batch, *seed);
  const Autocast autocast = precision_.autocast();
  try {
    pass.outputs = outputs_of(pass.batch);
  } catch (const c10::Error& error) {
    throw_with_layer(error, pass.batch);
  }
  batch_counts_.add();
  // parallel: data may have moved the outputs to another device.
  const at::Device there = pass.outputs.empty() ? device_ : pass.outputs[0].device();
  if (there != device_) pass.batch = pass.batch.to(there);
  pass.loss = mode == Mode::training ? task_.loss(pass.outputs, pass.batch)
                                     : task_.test_loss(pass.outputs, pass.batch);
  return pass;
}

}  // namespace ddp::worker
