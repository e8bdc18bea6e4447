#include "worker/python/exported_graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

#include "common/error.h"
#include "common/text/join_words.h"
#include "worker/model/autocast.h"
#include "worker/python/exported_constants.h"
#include "worker/python/size_functions.h"

namespace ddp::worker {
namespace {

using c10::IValue;
using Mode = ExportedGraphRunner::Mode;

/// An argument of a step.
struct Input {
  enum class Kind { constant, value, tensors, optional_tensors, numbers };

  Kind kind = Kind::constant;
  bool is_tensor = false;  // wanted: a number becomes one
  IValue constant;
  IValue in_evaluation;  // of a constant
  ValueId value;
  std::vector<ListItem> items;  // of a list
};

struct AutocastBlock {
  at::DeviceType device;
  at::ScalarType type;
  Autocast::Use use;
};

struct Step {
  std::optional<c10::OperatorHandle> operation;
  SizeFunction on_numbers = nullptr;  // instead: sizes are computed by Python's operators
  std::vector<Input> inputs;
  std::vector<ExportedResult> results;
  std::vector<ValueId> last_used;
  std::string place;
  bool has_grad = true;
  std::optional<AutocastBlock> autocast;
};

bool is_tensor_list(const c10::TypePtr& type) {
  return is_list_of(type, c10::TypeKind::TensorType);
}

bool has_optional_elements(const c10::TypePtr& type) {
  const auto list = plain_type(type)->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::OptionalType;
}

/// Errors: as refuse_node(), for a device or a type that is not supported.
AutocastBlock block_of(const ExportedNode& node, const ExportedAutocast& block) {
  const std::optional<at::ScalarType> type = scalar_type(block.type);
  if (block.device != "cpu" && block.device != "cuda")
    refuse_node(node, "torch.autocast() of the device " + block.device + " is not supported");
  if (block.is_enabled && type != at::kBFloat16 && type != at::kHalf)
    refuse_node(node, "torch.autocast() of a type that is not bfloat16 or float16");
  // torch.export turns the cache off.
  return {block.device == "cpu" ? at::kCPU : at::kCUDA,
          type.value_or(at::kBFloat16),
          block.is_enabled ? Autocast::Use::on_without_cache : Autocast::Use::off};
}

Step step_of(const ExportedNode& node) {
  Step step;
  step.results = node.results;
  step.place = node.place;
  step.has_grad = node.has_grad;
  if (node.autocast) step.autocast = block_of(node, *node.autocast);
  return step;
}

Input read_input(const ExportedNode& node,
                 const ExportedValue& value,
                 const c10::Argument& argument) {
  Input input;
  input.is_tensor = plain_type(argument.type())->kind() == c10::TypeKind::TensorType;
  if (const auto* const id = std::get_if<ValueId>(&value)) {
    input.kind = Input::Kind::value;
    input.value = *id;
  } else if (const auto* const items = std::get_if<std::vector<ListItem>>(&value)) {
    input.kind = !is_tensor_list(argument.type())         ? Input::Kind::numbers
                 : has_optional_elements(argument.type()) ? Input::Kind::optional_tensors
                                                          : Input::Kind::tensors;
    input.items = *items;
  } else {
    input.constant = constant_value(node, value, argument);
    if (input.is_tensor) input.constant = tensor_from(input.constant);
    input.in_evaluation = input.constant;
  }
  return input;
}

const ExportedValue* find(const ExportedNode& node, const std::string& argument) {
  for (const ExportedArgument& one : node.arguments)
    if (one.name == argument) return &one.value;
  return nullptr;
}

bool has_tensor(const ExportedNode& node, const std::string& argument) {
  const ExportedValue* const value = find(node, argument);
  return value != nullptr && std::holds_alternative<ValueId>(*value);
}

/// What an operator is given in an evaluation instead of its constant, as torch's modules in
/// evaluation mode give it; none: the same. A norm without running statistics takes those of the
/// batch in both.
std::optional<IValue> evaluation_value(const ExportedNode& node,
                                       const std::string& operation,
                                       const std::string& argument) {
  const bool is_norm = operation.find("batch_norm") != std::string::npos ||
                       operation.find("instance_norm") != std::string::npos;
  if (argument == "training" || argument == "train" || argument == "use_input_stats")
    return is_norm && !has_tensor(node, "running_mean") ? std::nullopt
                                                        : std::optional<IValue>(false);
  if (argument == "dropout_p") return IValue(0.0);
  return {};
}

/// Values that share memory with an input: views of it, and itself.
class Aliases {
 public:
  explicit Aliases(std::size_t values) : input_of_(values) {}

  void add_input(ValueId value) { input_of_.at(value.index) = value.index; }
  void follow(const c10::FunctionSchema& schema, const Step& step) {
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
      const Input& input = step.inputs[i];
      if (alias == nullptr || input.kind != Input::Kind::value) continue;
      const std::optional<std::size_t> root = input_of_.at(input.value.index);
      if (!root) continue;
      if (alias->isWrite()) written_.insert(*root);
      for (const ExportedResult& result : step.results)
        for (const ValueId one : result.values)
          input_of_.at(one.index) = root;
    }
  }
  [[nodiscard]] bool is_written(ValueId input) const { return written_.contains(input.index); }

 private:
  std::vector<std::optional<std::size_t>> input_of_;
  std::set<std::size_t> written_;
};

/// "28", "any", "up to 8", "3 to 4".
std::string text_of(const SizeRange& range) {
  const bool has_max = range.max != SizeRange().max;
  if (range.is_fixed()) return std::to_string(range.min);
  if (range.min == 1) return has_max ? "up to " + std::to_string(range.max) : "any";
  return std::to_string(range.min) + (has_max ? " to " + std::to_string(range.max) : " or more");
}

/// "torch.ops.aten.conv2d.default": "aten::conv2d" and "". None: no operator of ATen.
std::optional<c10::OperatorName> operator_name(std::string_view target) {
  constexpr std::string_view kBegin = "torch.ops.aten.";
  if (!target.starts_with(kBegin)) return {};
  target.remove_prefix(kBegin.size());
  const std::size_t dot = target.find('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view overload = target.substr(dot + 1);
  return c10::OperatorName("aten::" + std::string(target.substr(0, dot)),
                           overload == "default" ? "" : std::string(overload));
}

/// What a file must not call: an operator that opens a file, and one of LibTorch's own, which may
/// trust its arguments, unless torch.export itself writes it.
bool is_forbidden(std::string_view name) {
  constexpr std::array<std::string_view, 9> kWritten{"_native_batch_norm_legit",
                                                     "_softmax",
                                                     "_log_softmax",
                                                     "_to_copy",
                                                     "_scaled_dot_product",
                                                     "_unsafe_view",
                                                     "_adaptive_avg_pool",
                                                     "_prelu_kernel",
                                                     "_assert"};
  name.remove_prefix(std::string_view("aten::").size());
  if (name == "from_file") return true;
  return name.starts_with('_') && std::ranges::none_of(kWritten, [name](std::string_view known) {
           return name.starts_with(known);
         });
}

/// Compares types and devices of the example with those of a run, which may be others here.
bool is_check_of_example(const std::string& name) {
  return name == "aten::_assert_tensor_metadata";
}

}  // namespace

struct ExportedGraphRunner::Program {
  /// A tensor of the model, or a constant, at its place among the values.
  struct State {
    ValueId value;
    std::string name;
    at::Tensor tensor;
    bool is_written = false;   // by a node, in place
    bool is_replaced = false;  // by another value, after a step
  };

  std::vector<IValue> constants;  // of all values: the first state of a run
  std::vector<State> state;
  std::vector<Step> steps;
  std::vector<ExportedOutput> outputs;
  std::vector<std::pair<ValueId, std::size_t>> mutations;  // values for places in `state`
  ValueId images;
  std::vector<SizeRange> image_sizes;
  int training_layers = 0;
  int evaluation_layers = 0;
  std::string random_place;

  void add(const ExportedNode& node, Aliases& aliases);
  void add_operator(const ExportedNode& node, c10::OperatorHandle operation, Aliases& aliases);
  void note_mode(const c10::FunctionSchema& schema, const Step& step);
  void find_last_uses(std::size_t values);
  void require_shape(const at::Tensor& batch) const;
};

void ExportedGraphRunner::Program::add(const ExportedNode& node, Aliases& aliases) {
  if (const SizeFunction function = size_function(node.target)) {
    Step step = step_of(node);
    step.on_numbers = function;
    const c10::Argument number("number", c10::NumberType::get());
    for (const ExportedArgument& argument : node.arguments)
      step.inputs.push_back(read_input(node, argument.value, number));
    steps.push_back(std::move(step));
    return;
  }
  const std::optional<c10::OperatorName> name = operator_name(node.target);
  if (!name || is_forbidden(name->name)) {
    refuse_node(
        node,
        node.target +
            " is not run from such a file. Write the model without it, or take model.script");
  }
  if (is_check_of_example(name->name)) return;
  const std::optional<c10::OperatorHandle> operation =
      c10::Dispatcher::singleton().findSchema(*name);
  if (!operation) refuse_node(node, "LibTorch " TORCH_VERSION " has no operator " + node.target);
  add_operator(node, *operation, aliases);
}

void ExportedGraphRunner::Program::add_operator(const ExportedNode& node,
                                                c10::OperatorHandle operation,
                                                Aliases& aliases) {
  const c10::FunctionSchema& schema = operation.schema();
  Step step = step_of(node);
  step.operation = operation;
  for (const ExportedArgument& one : node.arguments)
    if (!schema.argumentIndexWithName(one.name))
      refuse_node(node,
                  node.target + " has no argument " + one.name + " in LibTorch " TORCH_VERSION);
  for (const c10::Argument& argument : schema.arguments()) {
    Input input;
    if (const ExportedValue* const given = find(node, argument.name())) {
      input = read_input(node, *given, argument);
      const bool is_flag_for_number =
          input.constant.isBool() &&
          plain_type(argument.type())->kind() == c10::TypeKind::NumberType;
      if (input.kind == Input::Kind::constant && !is_flag_for_number &&
          !input.constant.type()->isSubtypeOf(*argument.type()))
        refuse_node(node, node.target + " takes no such argument " + argument.name());
    } else if (argument.default_value()) {
      input.constant = *argument.default_value();
      input.in_evaluation = input.constant;
    } else {
      refuse_node(node, node.target + " lacks its argument " + argument.name());
    }
    // A machine without a GPU exports it as off.
    if (argument.name() == "cudnn_enabled") input.constant = input.in_evaluation = true;
    // In a job all tensors are made on its device: run_step() knows which.
    if (plain_type(argument.type())->kind() == c10::TypeKind::DeviceObjType)
      input.constant = input.in_evaluation = at::Device(at::kCPU);
    if (input.kind == Input::Kind::constant)
      if (const std::optional<IValue> other =
              evaluation_value(node, schema.name(), argument.name()))
        input.in_evaluation = *other;
    step.inputs.push_back(std::move(input));
  }
  while (!step.results.empty() && step.results.back().values.empty())
    step.results.pop_back();
  if (step.results.size() > schema.returns().size())
    refuse_node(node,
                node.target + " gives " + std::to_string(schema.returns().size()) + " results");
  aliases.follow(schema, step);
  note_mode(schema, step);
  steps.push_back(std::move(step));
}

void ExportedGraphRunner::Program::note_mode(const c10::FunctionSchema& schema, const Step& step) {
  bool has_mode = false;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    const IValue& value = step.inputs[i].constant;
    if ((name != "training" && name != "train") || !value.isBool()) continue;
    has_mode = true;
    ++(value.toBool() ? training_layers : evaluation_layers);
  }
  const bool draws = schema.argumentIndexWithName("generator").has_value() ||
                     schema.name().starts_with("aten::rand");
  if (draws && !has_mode && random_place.empty()) random_place = step.place;
}

/// The last step that uses a value drops it: autograd keeps what it needs.
void ExportedGraphRunner::Program::find_last_uses(std::size_t values) {
  std::vector<bool> is_kept(values, false);
  for (const ExportedOutput& output : outputs)
    is_kept.at(output.value.index) = true;
  for (const auto& [value, buffer] : mutations)
    is_kept.at(value.index) = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    Step& step = steps[i];
    const auto use = [&](ValueId value) {
      if (is_kept.at(value.index)) return;
      is_kept.at(value.index) = true;  // steps before this one do not drop it
      step.last_used.push_back(value);
    };
    for (const Input& input : step.inputs) {
      if (input.kind == Input::Kind::value) use(input.value);
      for (const ListItem& item : input.items)
        if (const auto* const value = std::get_if<ValueId>(&item)) use(*value);
    }
    for (const ExportedResult& result : step.results)
      for (const ValueId value : result.values)
        use(value);  // no step after it does
  }
}

void ExportedGraphRunner::Program::require_shape(const at::Tensor& batch) const {
  bool fits = static_cast<std::size_t>(batch.dim()) == image_sizes.size();
  std::string sizes;
  for (std::size_t i = 0; fits && i < image_sizes.size(); ++i)
    fits = image_sizes[i].has(batch.size(static_cast<std::int64_t>(i)));
  for (const SizeRange& one : image_sizes)
    add_word(sizes, text_of(one), "x");
  if (!fits) {
    throw UsageError("it was exported for [batch, channels, height, width] of [" + sizes +
                     "], and gets " + shape_text(batch) +
                     ". Choose data.batch and data.image_size for it, or export it for others: a "
                     "branch of forward() on a size, too, limits it");
  }
}

namespace {

const IValue& value_at(const std::vector<IValue>& values, ValueId value) {
  return values.at(value.index);
}

IValue list_from(const Input& input, const std::vector<IValue>& values) {
  if (input.kind == Input::Kind::numbers) {
    std::vector<std::int64_t> numbers;
    for (const ListItem& item : input.items) {
      const auto* const value = std::get_if<ValueId>(&item);
      const auto* const number = std::get_if<std::int64_t>(&item);
      if (value == nullptr && number == nullptr) throw std::runtime_error("a size is missing");
      numbers.push_back(number != nullptr ? *number : value_at(values, *value).toInt());
    }
    return numbers;
  }
  const auto tensor_of = [&](const ListItem& item) -> std::optional<at::Tensor> {
    const auto* const value = std::get_if<ValueId>(&item);
    if (value == nullptr) return {};
    return value_at(values, *value).toTensor();
  };
  if (input.kind == Input::Kind::optional_tensors) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const ListItem& item : input.items)
      tensors.push_back(tensor_of(item));
    return tensors;
  }
  c10::List<at::Tensor> tensors;
  for (const ListItem& item : input.items) {
    const std::optional<at::Tensor> tensor = tensor_of(item);
    if (!tensor) throw std::runtime_error("a tensor of a list is missing");
    tensors.push_back(*tensor);
  }
  return tensors;
}

IValue argument_from(const Input& input,
                     const std::vector<IValue>& values,
                     Mode mode,
                     at::Device device) {
  switch (input.kind) {
    case Input::Kind::constant: {
      const IValue& constant = mode == Mode::evaluation ? input.in_evaluation : input.constant;
      return constant.isDevice() ? IValue(device) : constant;
    }
    case Input::Kind::value: {
      const IValue& value = value_at(values, input.value);
      return input.is_tensor ? tensor_from(value) : value;
    }
    case Input::Kind::tensors:
    case Input::Kind::optional_tensors:
    case Input::Kind::numbers:
      return list_from(input, values);
  }
  throw std::logic_error("a kind of input without a case");
}

void take_results(const Step& step, std::vector<IValue>& stack, std::vector<IValue>& values) {
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    const ExportedResult& result = step.results[i];
    if (!result.is_list) {
      if (!result.values.empty()) values.at(result.values[0].index) = std::move(stack.at(i));
      continue;
    }
    const c10::List<at::Tensor> tensors = stack.at(i).toTensorList();
    if (tensors.size() != result.values.size())
      throw std::runtime_error("it gives " + std::to_string(tensors.size()) + " tensors, not " +
                               std::to_string(result.values.size()));
    for (std::size_t k = 0; k < tensors.size(); ++k)
      values.at(result.values[k].index) = tensors.get(k);
  }
}

void run_step(const Step& step, std::vector<IValue>& values, Mode mode, at::Device device) {
  std::optional<at::NoGradGuard> no_grad;
  if (!step.has_grad) no_grad.emplace();
  std::optional<Autocast> autocast;
  if (step.autocast) {
    // What was exported on a CPU is run on the job's device.
    const AutocastBlock& block = *step.autocast;
    autocast.emplace(
        block.device == at::kCPU ? device.type() : block.device, block.type, block.use);
  }
  std::vector<IValue> stack;
  stack.reserve(step.inputs.size());
  for (const Input& input : step.inputs)
    stack.push_back(argument_from(input, values, mode, device));
  if (step.on_numbers != nullptr)
    stack = {step.on_numbers(stack)};
  else
    step.operation->callBoxed(stack);
  take_results(step, stack, values);
  for (const ValueId value : step.last_used)
    values[value.index] = IValue();
}

}  // namespace

ExportedGraphRunner::ExportedGraphRunner(const ExportedGraph& graph,
                                         const std::map<std::string, at::Tensor>& tensors)
    : program_(std::make_unique<Program>()) {
  Program& program = *program_;
  program.constants.resize(graph.values);
  program.images = graph.images;
  program.image_sizes = graph.image_sizes;
  program.outputs = graph.outputs;
  Aliases aliases(graph.values);
  for (const ExportedState& one : graph.state) {
    program.state.push_back({one.value, one.name, tensors.at(one.name)});
    aliases.add_input(one.value);
  }
  ExportedNode input;
  input.place = "of its inputs";
  const c10::Argument any("constant", c10::AnyType::get());
  for (const auto& [value, constant] : graph.constants)
    program.constants.at(value.index) = constant_value(input, constant, any);
  for (const ExportedState& one : graph.mutations) {
    const auto place = std::ranges::find(graph.state, one.name, &ExportedState::name);
    if (place == graph.state.end())
      throw UsageError("replaces " + one.name + ", which it has not.");
    const auto index = static_cast<std::size_t>(place - graph.state.begin());
    program.mutations.emplace_back(one.value, index);
    program.state[index].is_replaced = true;
  }
  for (const ExportedNode& node : graph.nodes)
    program.add(node, aliases);
  for (Program::State& one : program.state)
    one.is_written = aliases.is_written(one.value);
  program.find_last_uses(graph.values);
}

ExportedGraphRunner::ExportedGraphRunner(ExportedGraphRunner&&) noexcept = default;

ExportedGraphRunner::~ExportedGraphRunner() = default;

std::vector<NamedTensor> ExportedGraphRunner::run(const at::Tensor& images, Mode mode) const {
  Program& program = *program_;
  program.require_shape(images);
  std::vector<IValue> values = program.constants;
  for (Program::State& one : program.state) {
    // A constant is not in the tree of modules, so nobody else moves it to the job's device.
    if (one.tensor.device() != images.device()) one.tensor = one.tensor.to(images.device());
    // Of a tensor that is replaced, backward may need the old value.
    const bool is_copied =
        !one.tensor.requires_grad() &&
        (mode == Mode::trial || (mode == Mode::evaluation ? one.is_written : one.is_replaced));
    values.at(one.value.index) = is_copied ? one.tensor.clone() : one.tensor;
  }
  values.at(program.images.index) = images;
  for (const Step& step : program.steps) {
    try {
      run_step(step, values, mode, images.device());
    } catch (c10::Error& error) {
      error.add_context("in node " + step.place);
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw std::runtime_error("node " + step.place + ": " + error.what());
    }
  }
  if (mode == Mode::training) {
    const at::NoGradGuard no_grad;
    for (const auto& [value, place] : program.mutations)
      program.state[place].tensor.copy_(value_at(values, value).toTensor());
  }
  std::vector<NamedTensor> outputs;
  for (const ExportedOutput& output : program.outputs)
    outputs.push_back({output.name, value_at(values, output.value).toTensor()});
  return outputs;
}

std::vector<std::string> ExportedGraphRunner::changed() const {
  std::vector<std::string> names;
  for (const Program::State& one : program_->state)
    if (one.is_written || one.is_replaced) names.push_back(one.name);
  return names;
}

int ExportedGraphRunner::training_layers() const {
  return program_->training_layers;
}

int ExportedGraphRunner::evaluation_layers() const {
  return program_->evaluation_layers;
}

const std::string& ExportedGraphRunner::random_place() const {
  return program_->random_place;
}

}  // namespace ddp::worker
