#include "worker/python/script_model.h"

#include <ATen/core/jit_type.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/api/function_impl.h>
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
#include "worker/model/norm.h"
#include "worker/model/python_layer.h"

namespace ddp::worker {
namespace {

namespace jit = torch::jit;

constexpr const char* kScriptKey = "model.script";

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

jit::Module load_script(const std::string& name, std::span<const std::byte> archive) try {
  return jit::load(std::make_shared<ArchiveBytes>(archive), at::Device(at::kCPU));
} catch (const std::exception& error) {
  const std::string reason = reason_of(error);  // some texts go on with what it may mean
  throw UsageError(
      kScriptKey + (": " + name) +
      ": is not a model of this LibTorch's TorchScript: " + reason.substr(0, reason.find(". ")) +
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
    const auto layer = std::make_shared<PythonLayer>(class_name_of(child));
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

/// "main", "5".
std::string key_text(const jit::IValue& key) {
  if (key.isString()) return key.toStringRef();
  std::ostringstream text;
  text << key;
  return std::move(text).str();
}

/// Adds the tensors in `value`, which is the output called `name`, or all of them (""). One inside
/// another is called "outer.inner"; without a key, its place is its name. Leaves others out.
void add_outputs(const jit::IValue& value,
                 const std::string& name,
                 std::vector<NamedTensor>& outputs) {
  const auto add = [&name, &outputs](const std::string& own, const jit::IValue& one) {
    add_outputs(one, name.empty() ? own : name + "." + own, outputs);
  };
  if (value.isTensor()) {
    outputs.push_back({name, value.toTensor()});
  } else if (value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    const auto& names = value.toTuple()->type()->schema();
    for (std::size_t i = 0; i < elements.size(); ++i)
      add(names ? names->arguments()[i].name() : std::to_string(i), elements[i]);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      add(key_text(entry.key()), entry.value());
    }
  } else if (value.isList()) {
    const c10::ArrayRef<jit::IValue> elements = value.toListRef();
    for (std::size_t i = 0; i < elements.size(); ++i)
      add(std::to_string(i), elements[i]);
  }
}

/// Errors: UsageError: there are none.
std::vector<NamedTensor> outputs_in(const jit::IValue& value) {
  std::vector<NamedTensor> outputs;
  add_outputs(value, "", outputs);
  if (outputs.empty())
    throw UsageError("it returns " + value.type()->repr_str() +
                     ", not a tensor, nor a tuple, list or dictionary of them");
  return outputs;
}

/// `compile`: by LibTorch's executor. The casts of blocks under torch.autocast() come into the
/// graph when it is first asked for, in each state of autocast, and only while its optimizer is on.
std::vector<NamedTensor> run_forward(jit::Module& script, at::Tensor x, bool compile) {
  jit::toGraphFunction(script.get_method("forward").function()).optimized_graph();
  const jit::GraphOptimizerEnabledGuard optimizer(compile);
  return outputs_in(script.forward({std::move(x)}));
}

/// Whether LibTorch's executor replaces the script's code by its own. On a CPU it fuses nothing,
/// and keeps more for the backward: a rank that trains ResNet-18 needs 0.9 GB, otherwise 0.6.
bool is_compiled(const at::Device& device) {
  return !device.is_cpu();
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
    : PythonModel(kScriptKey, name, archive),
      script_(std::make_unique<Script>(Script{load_script(name, archive)})) {
  const jit::Module& module = script_->module;
  if (!module.find_method("forward")) throw UsageError(where() + ": has no forward().");
  std::set<const void*> seen;
  mirror(module, *this, seen, script_->buffers);
  if (parameters().empty()) {
    throw UsageError(where() +
                     ": has no parameters to train. torch.jit.freeze makes them constants: save "
                     "the module before it.");
  }
  widen_tensors();
  script_->modes = fixed_modes(module);
  train(true);
}

ScriptModel::~ScriptModel() = default;

std::vector<NamedTensor> ScriptModel::run(at::Tensor x) {
  const bool compile = is_compiled(x.device());
  std::vector<NamedTensor> outputs = run_forward(script_->module, std::move(x), compile);
  script_->keep_buffers();
  return outputs;
}

std::vector<NamedTensor> ScriptModel::try_out(const at::Tensor& zeros, bool training) {
  jit::Module copy = script_->module.deepcopy();  // a training step changes buffers
  copy.train(training);
  // The executor would take what it sees first for what is to be fast.
  return run_forward(copy, zeros, /*compile=*/false);
}

// The executor profiles the first run of a graph and compiles what it saw for the second, whose
// backward it then does the same with (torch::jit::getNumProfiledRuns() is 1).
int ScriptModel::passes_until_steady() const {
  if (!is_compiled(parameters().front().device())) return 0;
  return static_cast<int>(jit::getNumProfiledRuns().load()) + 2;
}

void ScriptModel::train(bool on) {
  ImageModel::train(on);
  script_->module.train(on);
}

// What its code does with a buffer is not known.
bool ScriptModel::reads_changed_buffers() const {
  const auto holds_some = [](const auto& layer) {
    const auto own = layer->buffers(/*recurse=*/false);
    return norm_kind(*layer) == NormKind::none &&
           std::ranges::any_of(own, [](const at::Tensor& one) { return one.is_floating_point(); });
  };
  return std::ranges::any_of(modules(), holds_some);
}

std::string ScriptModel::note() const {
  const auto [training, evaluation] = script_->modes;
  if (training + evaluation == 0) return "";
  const bool both = training > 0 && evaluation > 0;
  const std::string mode = both ? "one mode" : training > 0 ? "training mode" : "evaluation mode";
  return where() + ": " + std::to_string(training + evaluation) +
         " norm and dropout layers stay in " + mode +
         ", in training and in evaluations: torch.jit.trace fixes it. torch.jit.script does not.";
}

std::string ScriptModel::archive() const {
  std::ostringstream bytes;
  script_->module.save(bytes);
  return std::move(bytes).str();
}

void ScriptModel::write(std::span<const std::byte> /*archive*/, OutputFile& file) const {
  file.write(archive());
}

}  // namespace ddp::worker
