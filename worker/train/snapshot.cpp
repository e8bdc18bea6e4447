#include "worker/train/snapshot.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

#include "worker/train/finite_check.h"

namespace ddp::worker {
namespace {

constexpr const char* kSums = "sums";
constexpr const char* kWatch = "watch";

/// The numbers of a saved tensor; zeros when it is not there or has another size.
std::vector<double> read_row(const TensorFile& state, const char* name, std::size_t size) {
  std::vector<double> row(size);
  const TensorView* const saved = state.find(name);
  if (saved != nullptr && saved->dtype == "F64" && saved->bytes.size() == size * sizeof(double))
    std::memcpy(row.data(), saved->bytes.data(), saved->bytes.size());
  return row;
}

/// Rank 0's numbers about a position, in one row: whether there is one, step, epoch, step in epoch,
/// whether there is a best, the best, evaluations without gain; then the sums.
std::vector<double> to_row(const LoadedCheckpoint& checkpoint, const SumNames& names) {
  const CheckpointHead& head = checkpoint.head;
  std::vector<double> row{1,
                          static_cast<double>(head.step),
                          static_cast<double>(head.epoch),
                          static_cast<double>(head.step_in_epoch),
                          head.best ? 1.0 : 0.0,
                          head.best.value_or(0),
                          read_row(checkpoint.state, kWatch, 1)[0]};
  std::ranges::copy(read_row(checkpoint.state, kSums, names.row_size()), std::back_inserter(row));
  return row;
}

constexpr std::size_t kHead = 7;

Position to_position(const at::Tensor& row, const SumNames& names) {
  const double* const value = row.data_ptr<double>();
  Position position;
  position.step = static_cast<std::int64_t>(value[1]);
  position.epoch = static_cast<std::int64_t>(value[2]);
  position.step_in_epoch = static_cast<std::int64_t>(value[3]);
  if (value[4] != 0) position.watch.best = value[5];
  position.watch.without_gain = static_cast<std::int64_t>(value[6]);
  position.sums = names.to_sums(std::span(value + kHead, names.row_size()));
  return position;
}

}  // namespace

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : tensors)
    result.push_back({name, tensor.detach().cpu().clone(at::MemoryFormat::Contiguous)});
  return result;
}

void broadcast_tensor(Group& group, const at::Tensor& tensor) {
  at::Tensor block = tensor.detach().contiguous();
  group.broadcast(block);
  tensor.detach().copy_(block);
}

Snapshot take_snapshot(const SharedState& shared, const Position& position) {
  Snapshot snapshot;
  snapshot.model = copies(shared.model);
  snapshot.optimizer = copies(shared.optimizer);
  snapshot.state.push_back({kSums, at::tensor(SumNames::to_row(position.sums), at::kDouble)});
  const auto without_gain = static_cast<double>(position.watch.without_gain);
  snapshot.state.push_back({kWatch, at::full({1}, without_gain, at::kDouble)});
  return snapshot;
}

Position restore(Group& group,
                 const LoadedCheckpoint* checkpoint,
                 const SumNames& names,
                 SharedState& shared) {
  const at::NoGradGuard no_grad;
  if (checkpoint != nullptr) {
    copy_from(checkpoint->model, (checkpoint->path / "model.safetensors").string(), shared.model);
    copy_from(checkpoint->optimizer,
              (checkpoint->path / "optimizer.safetensors").string(),
              shared.optimizer,
              FiniteCheck::names());
  }
  std::vector<double> row(kHead + names.row_size());
  if (checkpoint != nullptr) row = to_row(*checkpoint, names);
  at::Tensor all = at::tensor(row, at::kDouble);
  group.broadcast(all);
  if (all.data_ptr<double>()[0] == 0) return {};
  for (const NamedTensor& one : shared.model)
    broadcast_tensor(group, one.tensor);
  for (const NamedTensor& one : shared.optimizer)
    broadcast_tensor(group, one.tensor);
  return to_position(all, names);
}

}  // namespace ddp::worker
