#include "worker/python/exported_model.h"

#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "worker/model/python_layer.h"
#include "worker/save/checkpoint/tensor_copy.h"

namespace ddp::worker {
namespace {

using Kind = ExportedTensor::Kind;
using Mode = ExportedGraphRunner::Mode;

constexpr const char* kExportKey = "model.export";
constexpr const char* kHow =
    " In Python: torch.export.save(torch.export.export(net.train(), (images,), "
    "dynamic_shapes=({0: torch.export.Dim.AUTO},)), FILE).";

/// Errors: UsageError.
ExportedProgram read(const std::string& name, std::span<const std::byte> archive) {
  const ZipRecords records = read_zip(archive, name);
  if (!is_exported_program(records))
    throw UsageError(name + ": is not an archive of torch.export.save." + kHow +
                     " One of torch.jit.save is for model.script, weights are for model.weights.");
  return read_exported_program(records, name);
}

/// Layers by their paths: "features.1". Makes those that are not there.
class LayerTree {
 public:
  LayerTree(torch::nn::Module& root, const std::map<std::string, std::string>& classes)
      : root_(root), classes_(classes) {}

  torch::nn::Module& at(const std::string& path) {
    if (path.empty()) return root_;
    const auto known = layers_.find(path);
    if (known != layers_.end()) return *known->second;
    const auto type = classes_.find(path);
    const auto layer = std::make_shared<PythonLayer>(type == classes_.end() ? "" : type->second);
    const std::size_t dot = path.rfind('.');
    torch::nn::Module& parent = at(dot == std::string::npos ? "" : path.substr(0, dot));
    parent.register_module(path.substr(dot + 1), layer);
    layers_[path] = layer;
    return *layer;
  }

 private:
  torch::nn::Module& root_;
  const std::map<std::string, std::string>& classes_;
  std::map<std::string, std::shared_ptr<PythonLayer>> layers_;
};

/// Each part of a name is a layer inside that before it.
void require_shallow(const std::string& name) {
  constexpr auto kMostLayers = 100;
  if (std::ranges::count(name, '.') > kMostLayers)
    throw UsageError("has a tensor inside more than 100 layers.");
}

/// A batch of one size would be computed as if it had another, or fail.
void require_any_batch(const ExportedGraph& graph) {
  if (!graph.image_sizes.empty() && graph.image_sizes[0].is_fixed())
    throw UsageError("was exported for batches of " + std::to_string(graph.image_sizes[0].min) +
                     " images alone." + kHow);
}

}  // namespace

ExportedModel::ExportedModel(const std::string& name, std::span<const std::byte> archive) try
    : PythonModel(kExportKey, name, archive) {
  const ExportedProgram program = read(name, archive);
  try {
    require_any_batch(program.training);
    if (program.evaluation) require_any_batch(*program.evaluation);
    register_tensors(program);
    if (parameters().empty()) throw UsageError("has no parameters to train.");
    widen_tensors();
    training_.emplace(program.training, tensors_);
    if (program.evaluation) evaluation_.emplace(*program.evaluation, tensors_);
    require_saved(program);
  } catch (const UsageError& error) {
    throw UsageError(name + ": " + error.what());
  } catch (const c10::Error& error) {
    throw UsageError(name + ": is not what torch.export.save writes: " + reason_of(error));
  }
  train(true);
} catch (const UsageError& error) {
  throw UsageError(std::string(kExportKey) + ": " + error.what());
}

void ExportedModel::require_saved(const ExportedProgram& program) const {
  const std::vector<std::string> changed = training_->changed();
  for (const ExportedTensor& one : program.tensors) {
    if (one.kind != Kind::constant || std::ranges::count(changed, one.view.name) == 0) continue;
    const std::string name = one.view.name.substr(one.view.name.rfind(' ') + 1);
    throw UsageError("changes " + name +
                     " while it trains, which no checkpoint holds: it is not in Python's "
                     "state_dict. Register it with persistent=True.");
  }
}

void ExportedModel::register_tensors(const ExportedProgram& program) {
  LayerTree tree(*this, program.classes);
  using Place =
      std::tuple<std::string, std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Place, at::Tensor> by_place;  // a tensor with two names is one
  for (const ExportedTensor& one : program.tensors) {
    if (one.is_repeated) continue;
    const std::string& name = one.view.name;
    require_shallow(name);
    const auto [at, is_new] = by_place.try_emplace(
        {one.record, one.offset, one.view.shape, one.view.strides}, at::Tensor());
    if (is_new) at->second = to_tensor(one.view);
    tensors_[name] = at->second;
    if (one.kind == Kind::constant && is_16_bit(at->second))  // as widen_tensors()
      at->second.set_data(at->second.to(at::kFloat));
    if (!is_new || one.kind == Kind::constant) continue;
    const std::size_t dot = name.rfind('.');
    torch::nn::Module& layer = tree.at(dot == std::string::npos ? "" : name.substr(0, dot));
    if (one.kind == Kind::parameter)
      layer.register_parameter(name.substr(dot + 1), at->second, one.requires_grad);
    else
      layer.register_buffer(name.substr(dot + 1), at->second);
  }
}

const ExportedGraphRunner& ExportedModel::runner(bool training) const {
  return training || !evaluation_ ? *training_ : *evaluation_;
}

std::vector<NamedTensor> ExportedModel::run(at::Tensor x) try {
  return runner(is_training()).run(x, is_training() ? Mode::training : Mode::evaluation);
} catch (const UsageError& error) {
  throw UsageError(where() + ": " + error.what() + ".");
}

std::vector<NamedTensor> ExportedModel::try_out(const at::Tensor& zeros, bool training) {
  return runner(training).run(zeros, training ? Mode::trial : Mode::evaluation);
}

bool ExportedModel::reads_changed_buffers() const {
  return std::ranges::any_of(training_->changed(), [this](const std::string& name) {
    return tensors_.at(name).is_floating_point();  // not a norm's count of batches
  });
}

std::string ExportedModel::note() const {
  if (evaluation_) return "";
  if (training_->training_layers() == 0 && training_->evaluation_layers() > 0) {
    return where() + ": " + std::to_string(training_->evaluation_layers()) +
           " norm and dropout layers stay in evaluation mode, in training, too: it was exported "
           "after net.eval(). Export it after net.train().";
  }
  if (!training_->random_place().empty()) {
    return where() + ": draws random numbers in evaluations, too, in node " +
           training_->random_place() +
           ": they are part of its graph. See docs/any-model.md for an archive with a second graph "
           "for evaluations.";
  }
  return "";
}

void ExportedModel::write(std::span<const std::byte> archive, OutputFile& file) const {
  const at::NoGradGuard no_grad;
  const ZipRecords records = read_zip(archive, where());
  const ExportedProgram program = read_exported_program(records, where());
  ZipWriter writer(file);
  for (const auto& [name, bytes] : records) {
    std::vector<std::byte> present(bytes.begin(), bytes.end());
    for (const ExportedTensor& one : program.tensors) {
      if (one.record != name || one.view.bytes.empty()) continue;
      std::byte* const first = present.data() + (one.view.bytes.data() - bytes.data());
      TensorView view = one.view;
      view.bytes = {first, one.view.bytes.size()};
      copy_to(tensors_.at(view.name), view, first);
    }
    writer.add(name, present);
  }
  writer.finish();
}

}  // namespace ddp::worker
