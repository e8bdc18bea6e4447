#include "worker/train/snapshot.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <span>

#include "common/error.h"
#include "worker/train/finite_check.h"

namespace ddp::worker {
namespace {

at::Tensor rng_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_rng_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors) {
    // On the host, in C order, whatever the memory format; a copy, as training goes on.
    result.push_back({name, tensor.detach().cpu().clone(at::MemoryFormat::Contiguous)});
  }
  return result;
}

// Gloo wants one dense block in C order; weights may be channels-last.
void broadcast(Group& group, const at::Tensor& tensor) {
  at::Tensor block = tensor.detach().contiguous();
  group.broadcast(block);
  tensor.detach().copy_(block);
}

// The row of this rank in a saved [world_size, n] tensor, sent to each rank. Rows of another world
// size do not fit any rank.
at::Tensor scatter_rows(Group& group,
                        const TensorFile* file,
                        const std::string& name,
                        const at::Tensor& like) {
  at::Tensor all = at::zeros({group.world_size(), like.numel()}, like.options());
  if (file != nullptr) {
    const TensorView* const saved = file->find(name);
    const bool fits = saved != nullptr && saved->bytes.size() == all.nbytes() &&
                      saved->dtype == dtype_name(like.scalar_type());
    if (!fits) throw UsageError("the checkpoint's \"" + name + "\" does not fit this world size.");
    std::memcpy(all.data_ptr(), saved->bytes.data(), saved->bytes.size());
  }
  group.broadcast(all);
  return all[group.rank()].clone();
}

// Sums of another world size: rank 0 takes them all.
Meter sum_of_meters(const TensorFile& state) {
  Meter sum;
  const TensorView* const saved = state.find("meter");
  if (saved == nullptr || saved->dtype != "F64" || saved->bytes.size() % (3 * sizeof(double)) != 0)
    return sum;
  std::vector<double> values(saved->bytes.size() / sizeof(double));
  std::memcpy(values.data(), saved->bytes.data(), saved->bytes.size());
  for (std::size_t i = 0; i < values.size(); i += 3)
    sum += Meter{values[i], values[i + 1], values[i + 2]};
  return sum;
}

}  // namespace

Rewind::Rewind(std::vector<NamedTensor> buffers)
    : buffers_(std::move(buffers)), random_(rng_state()), exceptions_(std::uncaught_exceptions()) {
  for (const NamedTensor& buffer : buffers_)
    saved_.push_back(buffer.tensor.clone());
}

Rewind::~Rewind() {
  if (std::uncaught_exceptions() > exceptions_) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < saved_.size(); ++i)
    buffers_[i].tensor.copy_(saved_[i]);
  set_rng_state(random_);
}

Snapshot take_snapshot(Group& group, const SharedState& shared, const Meter& meter) {
  Snapshot snapshot;
  snapshot.state.push_back({"rng", group.gather(rng_state()).contiguous()});  // [world_size, bytes]
  snapshot.state.push_back(
      {"meter", group.gather(to_tensor(meter)).contiguous()});  // [world_size, 3]
  if (!group.is_root()) return snapshot;
  snapshot.model = copies(shared.model);
  snapshot.optimizer = copies(shared.optimizer);
  return snapshot;
}

Position restore(Group& group, const LoadedCheckpoint* checkpoint, SharedState& shared) {
  const at::NoGradGuard no_grad;
  if (checkpoint != nullptr) {
    copy_from(checkpoint->model, (checkpoint->path / "model.safetensors").string(), shared.model);
    copy_from(checkpoint->optimizer,
              (checkpoint->path / "optimizer.safetensors").string(),
              shared.optimizer,
              FiniteCheck::names());
  }
  // found, step, epoch, step in epoch, same world, has best, best
  at::Tensor head = at::zeros({7}, at::kDouble);
  if (checkpoint != nullptr) {
    const CheckpointHead& saved = checkpoint->head;
    head = at::tensor({1.0,
                       static_cast<double>(saved.step),
                       static_cast<double>(saved.epoch),
                       static_cast<double>(saved.step_in_epoch),
                       saved.world_size == group.world_size() ? 1.0 : 0.0,
                       saved.best ? 1.0 : 0.0,
                       saved.best.value_or(0)},
                      at::kDouble);
  }
  group.broadcast(head);
  const double* const value = head.data_ptr<double>();
  Position position;
  if (value[0] == 0) return position;
  position.step = static_cast<std::int64_t>(value[1]);
  position.epoch = static_cast<std::int64_t>(value[2]);
  position.step_in_epoch = static_cast<std::int64_t>(value[3]);
  if (value[5] != 0) position.best = value[6];
  for (const NamedTensor& one : shared.model)
    broadcast(group, one.tensor);
  for (const NamedTensor& one : shared.optimizer)
    broadcast(group, one.tensor);
  if (value[4] == 0) {
    // Another number of ranks: the random numbers go on from this run's own seeds.
    if (checkpoint != nullptr) position.meter = sum_of_meters(checkpoint->state);
    return position;
  }
  const TensorFile* const state = checkpoint != nullptr ? &checkpoint->state : nullptr;
  set_rng_state(scatter_rows(group, state, "rng", rng_state()));
  position.meter = to_meter(scatter_rows(group, state, "meter", to_tensor(Meter())));
  return position;
}

}  // namespace ddp::worker
