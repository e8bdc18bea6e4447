#include "worker/train/snapshot.h"

#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "worker/save/checkpoint/bulk_copy.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/train/step/finite_check.h"

namespace ddp::worker {
namespace {

constexpr const char* kSums = "sums";
constexpr const char* kBestState = "watch";

/// The numbers of a saved tensor; zeros when it is missing or has another size.
std::vector<double> read_row(const TensorFile& state, const char* name, std::size_t size) {
  std::vector<double> row(size);
  const TensorView* const saved = state.find(name);
  if (saved != nullptr && saved->dtype == "F64" && saved->bytes.size() == size * sizeof(double))
    std::memcpy(row.data(), saved->bytes.data(), saved->bytes.size());
  return row;
}

std::map<std::string, std::vector<double>> watch_values(const Position& position) {
  return {{kBestState, {static_cast<double>(position.best_state.without_gain)}}};
}

/// The bytes of a dense tensor.
std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// The value that an evaluation has given to a saved tensor later; null: none.
const std::vector<double>* find_amended(const CheckpointHead& head,
                                        const std::string& name,
                                        std::size_t size) {
  const auto later = head.amended_tensors.find(name);
  const bool is_there = later != head.amended_tensors.end() && later->second.size() == size;
  return is_there ? &later->second : nullptr;
}

std::vector<double> read_best_state(const LoadedCheckpoint& checkpoint) {
  const std::vector<double>* const later = find_amended(checkpoint.head, kBestState, 1);
  return later != nullptr ? *later : read_row(checkpoint.state, kBestState, 1);
}

Position position_of(const LoadedCheckpoint& checkpoint, const SumNames& names) {
  const CheckpointHead& head = checkpoint.head;
  Position position;
  position.step = head.step;
  position.epoch = head.epoch;
  position.step_in_epoch = head.step_in_epoch;
  position.best_state.best = head.best;
  position.best_state.without_gain = static_cast<std::int64_t>(read_best_state(checkpoint)[0]);
  position.result = head.result;
  // At the beginning of an epoch its sums are 0.
  if (head.step_in_epoch > 0)
    position.epoch_sums = names.to_sums(read_row(checkpoint.state, kSums, names.row_size()));
  return position;
}

constexpr std::size_t kPositionNumbers = 9;

/// A position as one row of numbers (zeros for none): 1 (there is one), step, epoch, step in epoch,
/// whether there is a best, the best, evaluations without gain, whether there is a result, the
/// result; then the sums of the epoch and of the newest step.
at::Tensor to_row(const Position* position, const SumNames& names) {
  std::vector<double> row;
  if (position != nullptr) {
    row = {1,
           static_cast<double>(position->step),
           static_cast<double>(position->epoch),
           static_cast<double>(position->step_in_epoch),
           position->best_state.best ? 1.0 : 0.0,
           position->best_state.best.value_or(0),
           static_cast<double>(position->best_state.without_gain),
           position->result ? 1.0 : 0.0,
           position->result.value_or(0)};
    std::ranges::copy(SumNames::to_row(position->epoch_sums), std::back_inserter(row));
    row.resize(kPositionNumbers + names.row_size());  // empty sums have no parts: pad with zeros
    std::ranges::copy(SumNames::to_row(position->last_step_sums), std::back_inserter(row));
  }
  row.resize(kPositionNumbers + 2 * names.row_size());
  return at::tensor(row, at::kDouble);
}

Position to_position(const at::Tensor& row, const SumNames& names) {
  const double* const value = row.data_ptr<double>();
  Position position;
  position.step = static_cast<std::int64_t>(value[1]);
  position.epoch = static_cast<std::int64_t>(value[2]);
  position.step_in_epoch = static_cast<std::int64_t>(value[3]);
  if (value[4] != 0) position.best_state.best = value[5];
  position.best_state.without_gain = static_cast<std::int64_t>(value[6]);
  if (value[7] != 0) position.result = value[8];
  const std::size_t size = names.row_size();
  position.epoch_sums = names.to_sums(std::span(value + kPositionNumbers, size));
  position.last_step_sums = names.to_sums(std::span(value + kPositionNumbers + size, size));
  return position;
}

std::vector<NamedTensor> optimizer_and_policy(const SharedState& shared) {
  std::vector<NamedTensor> tensors = shared.optimizer;
  tensors.insert(tensors.end(), shared.policy.begin(), shared.policy.end());
  return tensors;
}

/// Broadcasts position and tensors of rank `from`. Without a position nothing changes.
Position broadcast_state(Group& group,
                         int from,
                         const Position* position,
                         const SumNames& names,
                         const SharedState& shared) {
  at::Tensor row = to_row(position, names);
  group.broadcast(row, from);
  if (row.data_ptr<double>()[0] == 0) return {};
  for (const NamedTensor& one : shared.model)
    broadcast_tensor(group, one.tensor, from);
  for (const NamedTensor& one : optimizer_and_policy(shared))
    broadcast_tensor(group, one.tensor, from);
  return to_position(row, names);
}

/// "fc.weight" for "fc.weight.ema"; no value if the name has another suffix.
std::optional<std::string> strip_suffix(const std::string& suffix, const std::string& name) {
  if (!name.ends_with(suffix)) return {};
  return name.substr(0, name.size() - suffix.size());
}

/// Copies tensors of another job's optimizer that match by name, dtype and shape. Averages and
/// master weights without a match get the model's weights.
void copy_matching(const TensorFile& file,
                   const std::vector<NamedTensor>& model,
                   std::vector<NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const TensorView* const saved = file.find(name);
    const bool fits = saved != nullptr && saved->shape == tensor.sizes() &&
                      saved->dtype == dtype_name(tensor.scalar_type());
    if (fits) {
      tensor.copy_(to_tensor(*saved));
      continue;
    }
    for (const char* const suffix : {".ema", ".master"}) {
      const std::optional<std::string> weight = strip_suffix(suffix, name);
      const auto found =
          weight ? std::ranges::find(model, *weight, &NamedTensor::name) : model.end();
      if (found != model.end()) tensor.copy_(found->tensor);
    }
  }
}

}  // namespace

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors)
    result.push_back({name, tensor.detach().cpu().clone(at::MemoryFormat::Contiguous)});
  return result;
}

void broadcast_tensor(Group& group, const at::Tensor& tensor, int from) {
  at::Tensor block = tensor.detach().contiguous();
  group.broadcast(block, from);
  tensor.detach().copy_(block);
}

SnapshotArena::SnapshotArena(const SharedState& shared) {
  const auto add = [](const std::vector<NamedTensor>& tensors, std::vector<NamedTensor>& to) {
    for (const auto& [name, tensor] : tensors) {
      const bool is_dense = tensor.is_non_overlapping_and_dense();
      const at::TensorOptions options =
          at::TensorOptions(tensor.scalar_type()).pinned_memory(!tensor.is_cpu());
      const at::Tensor copy = is_dense
                                  ? at::empty_strided(tensor.sizes(), tensor.strides(), options)
                                  : at::empty(tensor.sizes(), options);
      to.push_back({name, copy.zero_()});  // touches the pages, so that they are allocated now
    }
  };
  add(shared.model, snapshot_.model);
  add(shared.optimizer, snapshot_.optimizer);
  add(shared.policy, snapshot_.optimizer);
}

const Snapshot& SnapshotArena::take(const SharedState& shared, const Position& position) {
  const at::NoGradGuard no_grad;
  bool is_under_way = false;
  std::vector<BytesToCopy> pieces;
  const auto copy = [&](const std::vector<NamedTensor>& from, NamedTensor* to) {
    for (const NamedTensor& one : from) {
      const at::Tensor& there = (to++)->tensor;
      if (one.tensor.is_cpu() && one.tensor.strides() == there.strides()) {
        pieces.push_back({bytes_of(one.tensor), static_cast<std::byte*>(there.data_ptr())});
        continue;
      }
      is_under_way = is_under_way || !one.tensor.is_cpu();
      there.copy_(one.tensor, /*non_blocking=*/true);
    }
    return to;
  };
  copy(shared.model, snapshot_.model.data());
  copy(shared.policy, copy(shared.optimizer, snapshot_.optimizer.data()));
  bulk_copy(pieces);
  if (is_under_way) at::accelerator::synchronizeDevice(shared.model.front().tensor.get_device());
  snapshot_.state = {{kSums, at::tensor(SumNames::to_row(position.epoch_sums), at::kDouble)}};
  for (const auto& [name, values] : watch_values(position))
    snapshot_.state.push_back({name, at::tensor(values, at::kDouble)});
  return snapshot_;
}

std::vector<NamedTensor> in_c_order(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors)
    result.push_back({name, tensor.contiguous()});
  return result;
}

std::map<std::string, std::vector<double>> amended_tensors_of(const SharedState& shared,
                                                              const Position& position) {
  std::map<std::string, std::vector<double>> values = watch_values(position);
  for (const auto& [name, tensor] : shared.policy) {
    const auto* const first = tensor.const_data_ptr<double>();
    values[name] = {first, first + tensor.numel()};
  }
  return values;
}

Position restore(Group& group,
                 const LoadedCheckpoint* checkpoint,
                 Origin origin,
                 const SumNames& names,
                 SharedState& shared) {
  const at::NoGradGuard no_grad;
  if (checkpoint == nullptr) return broadcast_state(group, 0, nullptr, names, shared);
  std::vector<NamedTensor> optimizer = optimizer_and_policy(shared);
  copy_from(checkpoint->model, (checkpoint->path / "model.safetensors").string(), shared.model);
  if (origin == Origin::same_job) {
    copy_from(checkpoint->optimizer,
              (checkpoint->path / "optimizer.safetensors").string(),
              optimizer,
              FiniteCheck::names());
  } else {
    copy_matching(checkpoint->optimizer, shared.model, optimizer);
  }
  for (const auto& [name, tensor] : shared.policy) {
    const auto size = static_cast<std::size_t>(tensor.numel());
    if (const auto* const later = find_amended(checkpoint->head, name, size))
      tensor.copy_(at::tensor(*later, at::kDouble));
  }
  Position position = position_of(*checkpoint, names);
  if (origin == Origin::other_job) position.best_state = {};
  return broadcast_state(group, 0, &position, names, shared);
}

Position restore_from_rank(Group& group,
                           int from,
                           const Position* position,
                           const SharedState* held,
                           const SumNames& names,
                           SharedState& shared) {
  const at::NoGradGuard no_grad;
  const auto copy = [](const std::vector<NamedTensor>& source, std::vector<NamedTensor>& target) {
    for (std::size_t i = 0; i < target.size(); ++i)
      target.at(i).tensor.copy_(source.at(i).tensor);
  };
  if (held != nullptr) {
    copy(held->model, shared.model);
    copy(held->optimizer, shared.optimizer);
    copy(held->policy, shared.policy);
  }
  return broadcast_state(group, from, position, names, shared);
}

}  // namespace ddp::worker
