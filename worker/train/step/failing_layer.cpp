#include "worker/train/step/failing_layer.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <exception>
#include <map>
#include <memory>

#include "worker/model/norm.h"
#include "worker/save/checkpoint/tensor_copy.h"

namespace ddp::worker {
namespace {

/// State of the pass that is watched on this thread.
struct Watch {
  std::map<const void*, std::string>
      names;           // of the parameters, by their memory, which views share
  int exceptions = 0;  // already under way around the pass
  std::string found;
};
thread_local Watch* watch = nullptr;

std::string sizes_text(const at::Tensor& tensor) {
  const std::string text = describe("", tensor.sizes());  // " [2, 4]"
  return text.substr(1);
}

const void* memory_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::string layer_of(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "the model" : parameter.substr(0, dot);
}

/// What is known of an operation's inputs until the operation ends.
struct Operation : at::ObserverContext {
  std::string text;  // "": no parameter is among them
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  auto operation = std::make_unique<Operation>();
  std::string layer;
  std::string others;
  std::string parameters;
  for (const c10::IValue& input : function.inputs()) {
    if (!input.isTensor() || !input.toTensor().defined()) continue;
    const at::Tensor& tensor = input.toTensor();
    const auto named = watch->names.find(memory_of(tensor));
    if (named == watch->names.end()) {
      others += (others.empty() ? "" : ", ") + sizes_text(tensor);
      continue;
    }
    if (layer.empty()) layer = layer_of(named->second);
    parameters += (parameters.empty() ? "" : ", ") +
                  named->second.substr(named->second.rfind('.') + 1) + " " + sizes_text(tensor);
  }
  if (!layer.empty())
    operation->text = layer + ": " + function.name() + (others.empty() ? "" : " of " + others) +
                      " with " + parameters;
  return operation;
}

// Also called when an exception leaves the operation. The outermost operation, which the model has
// called, comes last.
void end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  const auto* const operation = static_cast<Operation*>(context);
  if (operation == nullptr || std::uncaught_exceptions() <= watch->exceptions) return;
  if (!operation->text.empty()) watch->found = operation->text;
}

}  // namespace

std::string failing_layer(const torch::nn::Module& model, const std::function<void()>& again) {
  // Not `model` itself, which may not be owned by a shared_ptr.
  for (const auto& module : model.modules(/*include_self=*/false))
    if (std::dynamic_pointer_cast<Norm>(module) != nullptr) return "";
  Watch mine;
  for (const auto& parameter : model.named_parameters())
    mine.names.emplace(memory_of(parameter.value()), parameter.key());
  mine.exceptions = std::uncaught_exceptions();
  watch = &mine;
  const at::CallbackHandle handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begin, end).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  try {
    const at::RecordFunctionGuard enabled(true);
    again();
  } catch (const std::exception&) {
    // Expected: the pass has failed before.
  }
  at::removeCallback(handle);
  watch = nullptr;
  return mine.found;
}

}  // namespace ddp::worker
