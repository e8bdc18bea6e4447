#include "worker/user_loop/checkpoints.h"

#include <torch/torch.h>

#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/files/owned_dir.h"
#include "worker/dist/peer_call.h"
#include "worker/model/state.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/train/checkpointer.h"
#include "worker/train/snapshot.h"
#include "worker/train/torch_version.h"
#include "worker/user_loop/state.h"

namespace ddp {
namespace {

constexpr const char* kOptimizer = "torch.optim";
constexpr const char* kKind = "optimizer";  // in the manifest

std::string kind_of(const torch::optim::Optimizer& optimizer) {
  return c10::demangle(typeid(optimizer).name());
}

/// Errors: UsageError for a checkpoint of another optimizer, or one that is not from a user's own
/// loop.
void require_kind(const worker::LoadedCheckpoint& found, const torch::optim::Optimizer& optimizer) {
  const auto saved = found.head.job.find(kKind);
  if (saved == found.head.job.end() || found.optimizer.find(kOptimizer) == nullptr) {
    throw UsageError(found.path.string() +
                     ": holds no state of torch::optim: it is not of a loop of one's own.");
  }
  if (saved->second == kind_of(optimizer)) return;
  throw UsageError(found.path.string() + ": was saved with " + saved->second +
                   ", this program has " + kind_of(optimizer) +
                   ". Take the same, or another directory.");
}

// torch::optim serializes its own state; the checkpoint holds the result as bytes.
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

void from_bytes(const at::Tensor& bytes, torch::optim::Optimizer& optimizer, at::Device device) {
  torch::serialize::InputArchive archive;
  archive.load_from(
      static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel()), device);
  optimizer.load(archive);
}

/// A scope guard: while it exists, the progress page shows `phase`.
class ShownPhase {
 public:
  ShownPhase(ProgressPage& page, Phase phase) : page_(page), before_(page.phase) {
    enter_phase(page_, phase);
    touch(page_);
  }
  ShownPhase(const ShownPhase&) = delete;
  ShownPhase& operator=(const ShownPhase&) = delete;
  ~ShownPhase() {
    enter_phase(page_, before_);
    touch(page_);
  }

 private:
  ProgressPage& page_;
  Phase before_;
};

}  // namespace

struct Checkpoints::Disk {
  Disk(const std::filesystem::path& path, int keep)
      : directory(OwnedDir::require(path)), checkpoints(directory, keep, "") {}

  void save(std::int64_t step,
            int world_size,
            const std::string& kind,
            const worker::Snapshot& content) {
    worker::CheckpointContent view;
    view.head.step = step;
    view.head.world_size = world_size;
    view.head.job[kKind] = kind;
    view.head.torch_version = worker::torch_version();
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
  if (step < 1) throw std::logic_error("a checkpoint is of a step from 1 on");
  const at::NoGradGuard no_grad;
  const ShownPhase saving(**context_.state_->page, Phase::saving);
  const std::string problem = run_on_rank_0([&] {
    const worker::Snapshot content{
        worker::copies(worker::state_of(model)), {{kOptimizer, to_bytes(optimizer)}}, {}};
    disk_->save(step, context_.world_size(), kind_of(optimizer), content);
  });
  if (problem.empty()) return;
  throw SystemError("the checkpoint of step " + std::to_string(step) +
                    " was not saved: " + problem);
}

std::int64_t Checkpoints::restore(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  const ShownPhase loading(**context_.state_->page, Phase::loading);
  worker::Group& group = context_.group();
  std::vector<worker::NamedTensor> tensors = worker::state_of(model);
  at::Tensor head = at::full({2}, 0, at::kLong);  // step, bytes of the optimizer
  at::Tensor bytes;
  const std::string problem = run_on_rank_0([&] {
    const std::optional<worker::LoadedCheckpoint> found = worker::load_newest(disk_->checkpoints);
    if (!found) return;
    require_kind(*found, optimizer);
    bytes = worker::to_tensor(*found->optimizer.find(kOptimizer));
    worker::copy_from(found->model, (found->path / "model.safetensors").string(), tensors);
    head = at::tensor({found->head.step, bytes.numel()}, at::kLong);
    log::info("goes on from " + found->path.string());
  });
  if (!problem.empty()) throw UsageError(problem);
  group.broadcast(head);
  const std::int64_t step = head[0].item<std::int64_t>();
  if (step == 0) return 0;
  for (const worker::NamedTensor& one : tensors)
    worker::broadcast_tensor(group, one.tensor);
  if (!disk_) bytes = at::empty({head[1].item<std::int64_t>()}, at::kByte);
  group.broadcast(bytes);
  from_bytes(bytes, optimizer, context_.device());
  return step;
}

// Runs `work` on rank 0. Returns its error on all ranks before any of them continues; "" if there
// is none.
std::string Checkpoints::run_on_rank_0(const std::function<void()>& work) {
  std::string problem;
  try {
    if (disk_) work();
  } catch (const std::exception& error) {
    problem = worker::message_of(error);
  }
  return worker::gather_texts(context_.group(), problem).front();
}

}  // namespace ddp
