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

/// State of the pass that is observed on this thread.
struct Watch {
  std::map<const void*, std::string>
      names;           // of the parameters, by storage, because views share it
  int exceptions = 0;  // in flight before the pass
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

/// A description of the operation's inputs, kept until it ends.
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

// Called even when an exception leaves the operation. Inner operations end first, so the last one
// is the outermost, which the model has called.
void end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  const auto* const operation = static_cast<Operation*>(context);
  if (operation == nullptr || std::uncaught_exceptions() <= watch->exceptions) return;
  if (!operation->text.empty()) watch->found = operation->text;
}

}  // namespace

std::string failing_layer(const torch::nn::Module& model, const std::function<void()>& again) {
  // Without `model` itself, because modules() would need a shared_ptr to it.
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
