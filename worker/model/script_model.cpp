#include "worker/model/script_model.h"

#include <ATen/core/jit_type.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/join_words.h"
#include "worker/model/named_tensor.h"
#include "worker/model/script_layer.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

namespace jit = torch::jit;

constexpr const char* kKey = "model.script: ";
constexpr const char* kFactors = "outputs";  // of model.args

/// LibTorch's view of bytes in memory.
class ArchiveBytes final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit ArchiveBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t size() const override { return bytes_.size(); }
  std::size_t read(std::uint64_t from, void* to, std::size_t count, const char*) const override {
    if (from >= bytes_.size()) return 0;
    const std::size_t there = std::min<std::size_t>(count, bytes_.size() - from);
    std::memcpy(to, bytes_.data() + from, there);
    return there;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// A buffer in the script, which its code may replace by another tensor, and in our tree.
struct Buffer {
  jit::Module owner;
  std::size_t slot;
  at::Tensor tensor;
};

/// Norm and dropout layers whose mode is a constant, as torch.jit.trace leaves them.
struct FixedModes {
  int training = 0;
  int evaluation = 0;
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// What went wrong in a script: "RuntimeError: size mismatch", without its stack.
std::string reason_of(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  // The interpreter puts the reason below the stack.
  const std::size_t end = text.find_last_not_of('\n');
  if (!text.starts_with("The following operation failed")) return first_line(text);
  const std::size_t last = text.rfind("\nRuntimeError: ");
  const std::size_t begin = last == std::string::npos ? text.rfind('\n', end) : last;
  return first_line(text.substr(begin + 1));
}

jit::Module load_script(const std::string& name, std::span<const std::byte> archive) try {
  return jit::load(std::make_shared<ArchiveBytes>(archive), at::Device(at::kCPU));
} catch (const std::exception& error) {
  const std::string reason = reason_of(error);  // some texts go on with what it may mean
  throw UsageError(kKey + name + ": is not a model of this LibTorch's TorchScript: " +
                   reason.substr(0, reason.find(". ")) +
                   ". Write it in Python with torch.jit.save(torch.jit.script(net), \"" + name +
                   "\"); weights alone are for model.weights.");
}

std::string class_name_of(const jit::Module& script) {
  const std::optional<c10::QualifiedName> name = script.type()->name();
  return name ? name->name() : "";
}

/// Registers the tensors of `script` and of its modules in `tree`. `seen`: those that have a name.
void mirror(const jit::Module& script,
            torch::nn::Module& tree,
            std::set<const void*>& seen,
            std::vector<Buffer>& buffers) {
  const auto is_new = [&seen](const at::Tensor& tensor) {
    return tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second;
  };
  for (const auto& [name, tensor] : script.named_parameters(/*recurse=*/false))
    if (is_new(tensor)) tree.register_parameter(name, tensor, tensor.requires_grad());
  for (const auto& [name, tensor] : script.named_buffers(/*recurse=*/false)) {
    if (!is_new(tensor)) continue;
    tree.register_buffer(name, tensor);
    buffers.push_back({script, script.type()->getAttributeSlot(name), tensor});
  }
  for (const auto& [name, child] : script.named_children()) {
    const auto layer = std::make_shared<ScriptLayer>(class_name_of(child));
    mirror(child, *tree.register_module(name, layer), seen, buffers);
  }
}

void count_fixed(const jit::Block& block, FixedModes& modes) {
  for (const jit::Node* const node : block.nodes()) {
    for (const jit::Block* const inner : node->blocks())
      count_fixed(*inner, modes);
    const c10::Symbol kind = node->kind();
    const bool is_norm = kind == at::aten::batch_norm || kind == at::aten::instance_norm;
    if (!is_norm && kind != at::aten::dropout && kind != at::aten::feature_dropout) continue;
    const jit::Value* const mode = kind == at::aten::batch_norm ? node->input(5)
                                   : is_norm                    ? nullptr
                                                                : node->input(2);
    if (mode == nullptr || mode->node()->kind() != at::prim::Constant) continue;
    const std::optional<jit::IValue> value = jit::toIValue(mode);
    if (!value || !value->isBool()) continue;
    ++(value->toBool() ? modes.training : modes.evaluation);
  }
}

FixedModes fixed_modes(const jit::Module& script) {
  const std::shared_ptr<jit::Graph> graph = script.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  FixedModes modes;
  count_fixed(*graph->block(), modes);
  return modes;
}

/// The tensors among the outputs of a script: one without a name, or those of a tuple, list or
/// dictionary, with their names or places. Leaves None out.
std::vector<NamedTensor> flatten(const jit::IValue& value) {
  if (value.isTensor()) return {{"", value.toTensor()}};
  std::vector<NamedTensor> outputs;
  const auto add = [&outputs](const std::string& name, const jit::IValue& one) {
    if (one.isNone()) return;
    if (!one.isTensor())
      throw UsageError("its output " + name + " is of type " + one.type()->repr_str() +
                       ", not a tensor");
    outputs.push_back({name, one.toTensor()});
  };
  if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    const auto& names = value.toTuple()->type()->schema();
    for (std::size_t i = 0; i < elements.size(); ++i)
      add(names ? names->arguments()[i].name() : std::to_string(i), elements[i]);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const jit::IValue& key = entry.key();
      add(key.isString() ? key.toStringRef() : std::to_string(outputs.size()), entry.value());
    }
  } else if (value.isList()) {
    for (const jit::IValue& one : value.toListRef())
      add(std::to_string(outputs.size()), one);
  } else {
    throw UsageError("it returns " + value.type()->repr_str() +
                     ", not a tensor, nor a tuple, list or dictionary of them");
  }
  return outputs;
}

const NamedTensor* find(const std::vector<NamedTensor>& outputs, const std::string& name) {
  const auto found = std::ranges::find(outputs, name, &NamedTensor::name);
  return found == outputs.end() ? nullptr : &*found;
}

std::string names_text(const std::vector<NamedTensor>& outputs) {
  std::vector<std::string> names;
  for (const NamedTensor& one : outputs)
    names.push_back(one.name + " " + shape_text(one.tensor));
  return join_words(names);
}

/// The outputs for two images of zeros, without profiling them: the executor would take them for
/// what is to be fast. Errors: any that the script throws.
std::vector<NamedTensor> outputs_for_zeros(jit::Module script,
                                           const ScriptData& data,
                                           at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const jit::GraphOptimizerEnabledGuard without_profile(false);
  return flatten(script.forward({torch::zeros({2, data.channels, data.height, data.width}, type)}));
}

/// The outputs of a training step that `args` names, the one with the largest factor first. Errors:
/// UsageError.
std::vector<Head> named_heads(const std::vector<NamedTensor>& outputs, const Args& args) {
  if (outputs.size() == 1 && !args.has_map("outputs")) return {{outputs[0].name}};
  std::vector<Head> heads;
  for (const NamedTensor& one : outputs) {
    const std::string argument = "outputs." + one.name;
    if (args.has(argument)) heads.push_back({one.name, args.real(argument, 0, kAnyReal)});
  }
  if (heads.empty()) {
    throw UsageError("it has " + std::to_string(outputs.size()) +
                     " outputs: " + names_text(outputs) +
                     ". Say which of them are scores, with their factors in the loss, as "
                     "model.args: {outputs: {" +
                     (outputs.empty() ? "NAME" : outputs[0].name) +
                     ": 1}}; that with the largest factor is evaluated");
  }
  std::ranges::stable_sort(heads, std::ranges::greater(), &Head::factor);
  return heads;
}

/// Errors: UsageError.
void require_scores(const at::Tensor& scores, const std::string& name, int classes) {
  if (scores.dim() == 2 && scores.size(0) == 2 && scores.size(1) == classes) return;
  const std::string count = std::to_string(classes);
  throw UsageError((name.empty() ? "it gives " : "its output " + name + " is ") +
                   shape_text(scores) + " for two images, and the data have " + count +
                   " classes, so [2x" + count +
                   "] is needed. Replace its last layer in Python before torch.jit.script, as "
                   "net.fc = torch.nn.Linear(net.fc.in_features, " +
                   count + ")");
}

}  // namespace

struct ScriptModel::Script {
  jit::Module module;
  std::vector<Buffer> buffers{};
  FixedModes modes{};

  /// Writes what the code has put in place of a buffer into it: others hold the buffer.
  void keep_buffers() {
    const at::NoGradGuard no_grad;
    for (Buffer& one : buffers) {
      const at::Tensor& now = one.owner._ivalue()->getSlot(one.slot).toTensor();
      if (now.is_same(one.tensor)) continue;
      one.tensor.copy_(now);
      one.owner._ivalue()->setSlot(one.slot, one.tensor);
    }
  }
};

ScriptModel::ScriptModel(std::string name, std::span<const std::byte> archive)
    : script_(std::make_unique<Script>(Script{load_script(name, archive)})),
      name_(std::move(name)),
      digest_(ddp::worker::digest(archive)) {
  const jit::Module& module = script_->module;
  if (!module.find_method("forward")) throw UsageError(kKey + name_ + ": has no forward().");
  std::set<const void*> seen;
  mirror(module, *this, seen, script_->buffers);
  if (parameters().empty()) {
    throw UsageError(kKey + name_ +
                     ": has no parameters to train. torch.jit.freeze makes them constants: save "
                     "the module before it.");
  }
  for (const bool is_buffer : {false, true}) {
    for (at::Tensor& tensor : is_buffer ? buffers() : parameters())
      if (tensor.is_floating_point() && tensor.element_size() == 2)
        tensor.set_data(tensor.detach().to(at::kFloat));
  }
  script_->modes = fixed_modes(module);
  train(true);
}

void ScriptModel::choose_heads(const ScriptData& data, const Args& args) try {
  jit::Module copy = script_->module.deepcopy();  // a training step changes buffers
  copy.train();
  const at::ScalarType type = parameters()[0].scalar_type();
  const std::vector<NamedTensor> trained = outputs_for_zeros(copy, data, type);
  heads_ = named_heads(trained, args);
  for (const Head& head : heads_)
    require_scores(find(trained, head.name)->tensor, head.name, data.classes);
  copy.eval();
  const std::vector<NamedTensor> evaluated = outputs_for_zeros(copy, data, type);
  const NamedTensor* const main = find(evaluated, heads_[0].name);
  if (main == nullptr)
    throw UsageError("its output " + heads_[0].name + " is not there in evaluation mode");
  require_scores(main->tensor, main->name, data.classes);
} catch (const UsageError& error) {
  const std::string text = error.what();
  if (text.find("model.args.") != std::string::npos) throw;  // says where already
  throw UsageError(kKey + name_ + ": " + text + ".");
} catch (const std::exception& error) {
  const std::vector<std::int64_t> shape{data.channels, data.height, data.width};
  throw UsageError(kKey + name_ + ": does not take images of " + shape_text(shape) + ": " +
                   reason_of(error) +
                   ". Choose their size by data.image_size or a resize in data.augment, or write "
                   "the model for these.");
}

ScriptModel::~ScriptModel() = default;

at::Tensor ScriptModel::forward(at::Tensor x) {
  return forward_heads(std::move(x)).at(0);
}

std::vector<at::Tensor> ScriptModel::forward_heads(at::Tensor x) {
  const std::vector<NamedTensor> outputs = flatten(script_->module.forward({std::move(x)}));
  script_->keep_buffers();
  std::vector<at::Tensor> scores;
  for (const Head& head : heads_) {
    const NamedTensor* const output = find(outputs, head.name);
    if (output == nullptr) {
      throw UsageError(kKey + name_ + ": has not given its output " + head.name +
                       " for this batch. Give it for each, or leave it out of model.args.outputs.");
    }
    scores.push_back(output->tensor);
    if (!is_training()) break;
  }
  return scores;
}

void ScriptModel::train(bool on) {
  ImageModel::train(on);
  script_->module.train(on);
}

std::string ScriptModel::note() const {
  const auto [training, evaluation] = script_->modes;
  if (training + evaluation == 0) return "";
  const bool both = training > 0 && evaluation > 0;
  const std::string mode = both ? "one mode" : training > 0 ? "training mode" : "evaluation mode";
  return kKey + name_ + ": " + std::to_string(training + evaluation) +
         " norm and dropout layers stay in " + mode +
         ", in training and in evaluations: torch.jit.trace fixes it. torch.jit.script does not.";
}

std::string ScriptModel::archive() const {
  std::ostringstream bytes;
  script_->module.save(bytes);
  return std::move(bytes).str();
}

}  // namespace ddp::worker
