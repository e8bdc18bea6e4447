#include "worker/user_loop/ddp.h"

#include <stdexcept>

#include "worker/dist/replica_check.h"
#include "worker/model/state.h"
#include "worker/train/snapshot.h"
#include "worker/user_loop/state.h"

namespace ddp {
namespace {

worker::DdpRequest request_for(const torch::nn::Module& model, const DdpOptions& options) {
  worker::DdpRequest request;
  request.parameters = worker::trainable_of(model);
  request.buffers = worker::buffers_of(model);
  request.bucket_bytes = options.bucket_bytes;
  request.model_name = model.name();
  request.find_unused = options.find_unused;
  request.static_graph = options.static_graph;
  request.has_views = false;  // torch::optim's zero_grad() cannot detach views
  request.has_job_file = false;
  request.hook = options.hook;
  request.buffer_sync =
      options.broadcast_buffers ? worker::BufferSync::automatic : worker::BufferSync::never;
  return request;
}

}  // namespace

Ddp::Ddp(torch::nn::Module& model, Context& context, const DdpOptions& options)
    : engine_(std::make_shared<Engine>()) {
  worker::Group& group = context.group();
  group.require_same(
      "model", worker::describe_model(worker::parameters_of(model), worker::buffers_of(model)));
  for (const worker::NamedTensor& frozen : worker::frozen_of(model))
    worker::broadcast_tensor(group, frozen.tensor);
  engine_->reducer.emplace(request_for(model, options), group);
  context.state_->replicas.push_back(engine_);
}

// Leaks the reducer after a lost rank: its destructor may wait for work that never ends.
Ddp::~Ddp() {
  if (engine_->is_in_backward) (void)new std::shared_ptr<Engine>(engine_);
}

void Ddp::backward(const at::Tensor& loss) {
  if (!engine_->reducer) throw std::logic_error("backward() after Context::finish()");
  worker::Ddp& reducer = *engine_->reducer;
  const bool reduce = no_syncs_ == 0;
  engine_->is_in_backward = true;
  if (reduce) reducer.prepare_to_reduce();
  reducer.backward(loss, reduce);
  // Not before backward, which may need the old buffers.
  if (reduce) reducer.sync_buffers();
  engine_->is_in_backward = false;
}

}  // namespace ddp
