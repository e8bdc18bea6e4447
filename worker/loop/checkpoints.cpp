#include "worker/loop/checkpoints.h"

#include <torch/torch.h>

#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/log.h"
#include "common/owned_dir.h"
#include "worker/model/state.h"
#include "worker/save/checkpoint.h"
#include "worker/save/tensor_copy.h"
#include "worker/train/snapshot.h"

namespace ddp {
namespace {

constexpr const char* kOptimizer = "torch.optim";

// torch::optim knows its own state; the file holds it as bytes.
at::Tensor to_bytes(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string text = stream.str();
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

void from_bytes(const at::Tensor& bytes, torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive archive;
  archive.load_from(static_cast<const char*>(bytes.data_ptr()),
                    static_cast<std::size_t>(bytes.numel()));
  optimizer.load(archive);
}

}  // namespace

struct Checkpoints::Disk {
  Disk(const std::filesystem::path& path, int keep)
      : directory(OwnedDir::require(path)), checkpoints(directory, keep, "") {}

  void save(std::int64_t step, int world_size, const worker::Snapshot& content) {
    worker::CheckpointContent view;
    view.head.step = step;
    view.head.world_size = world_size;
    view.head.torch_version = TORCH_VERSION;
    view.model = worker::view(content.model);
    view.optimizer = worker::view(content.optimizer);
    checkpoints.save(view);
  }

  OwnedDir directory;
  worker::Checkpoints checkpoints;
};

Checkpoints::Checkpoints(Context& context, const std::filesystem::path& directory, int keep)
    : context_(context) {
  if (context_.is_root()) disk_ = std::make_unique<Disk>(directory, keep);
}

Checkpoints::~Checkpoints() = default;

void Checkpoints::save(std::int64_t step,
                       const torch::nn::Module& model,
                       const torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  std::string problem;
  if (disk_) {
    try {
      const worker::Snapshot content{
          worker::copies(worker::state_of(model)), {{kOptimizer, to_bytes(optimizer)}}, {}};
      disk_->save(step, context_.world_size(), content);
    } catch (const SystemError& error) {
      problem = error.what();
    }
  }
  const std::string said = worker::gather_texts(context_.group(), problem).front();
  if (!said.empty())
    throw SystemError("the checkpoint of step " + std::to_string(step) + " was not saved: " + said);
}

std::int64_t Checkpoints::restore(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  worker::Group& group = context_.group();
  std::vector<worker::NamedTensor> tensors = worker::state_of(model);
  at::Tensor head = at::full({2}, -1, at::kLong);  // step, bytes of the optimizer
  at::Tensor bytes;
  if (disk_) {
    std::vector<std::string> warnings;
    const std::optional<worker::LoadedCheckpoint> found = disk_->checkpoints.load_newest(warnings);
    for (const std::string& warning : warnings)
      log::warning(warning);
    if (found) {
      const worker::TensorView* const saved = found->optimizer.find(kOptimizer);
      if (saved == nullptr) {
        throw UsageError(found->path.string() +
                         ": holds no state of torch::optim: it is not of a loop of one's own.");
      }
      bytes = worker::to_tensor(*saved);
      worker::copy_from(found->model, (found->path / "model.safetensors").string(), tensors);
      head = at::tensor({found->head.step, bytes.numel()}, at::kLong);
    }
  }
  group.broadcast(head);
  const std::int64_t step = head[0].item<std::int64_t>();
  if (step < 0) return 0;
  for (const worker::NamedTensor& one : tensors)
    worker::broadcast_tensor(group, one.tensor);
  if (!disk_) bytes = at::empty({head[1].item<std::int64_t>()}, at::kByte);
  group.broadcast(bytes);
  from_bytes(bytes, optimizer);
  return step;
}

}  // namespace ddp
