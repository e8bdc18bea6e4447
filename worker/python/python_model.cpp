#include "worker/python/python_model.h"

#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

const NamedTensor* find(const std::vector<NamedTensor>& outputs, const std::string& name) {
  const auto found = std::ranges::find(outputs, name, &NamedTensor::name);
  return found == outputs.end() ? nullptr : &*found;
}

/// In evaluation mode a model may give its scores alone.
const NamedTensor* find_evaluated(const std::vector<NamedTensor>& outputs,
                                  const std::string& name) {
  const bool is_alone = outputs.size() == 1 && outputs[0].name.empty();
  return is_alone ? outputs.data() : find(outputs, name);
}

std::string names_text(const std::vector<NamedTensor>& outputs) {
  std::vector<std::string> names;
  for (const NamedTensor& one : outputs)
    names.push_back(one.name + " " + shape_text(one.tensor));
  return join_words(names);
}

/// The outputs of a training step that `args` names, the one with the largest factor first. Errors:
/// UsageError.
std::vector<Head> named_heads(const std::vector<NamedTensor>& outputs, const Args& args) {
  if (outputs.size() == 1 && !args.has_map("outputs")) return {{outputs[0].name}};
  std::vector<Head> heads;
  for (const NamedTensor& one : outputs) {
    if (find(outputs, one.name) != &one)
      throw UsageError("it has two outputs called " + one.name + ": rename one in Python");
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
                   "] is needed. Replace its last layer in Python before you write the file, as "
                   "net.fc = torch.nn.Linear(net.fc.in_features, " +
                   count + ")");
}

}  // namespace

bool is_16_bit(const at::Tensor& tensor) {
  return tensor.is_floating_point() && tensor.element_size() == 2;
}

std::string reason_of(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  // The interpreter puts the reason below the stack.
  const std::size_t end = text.find_last_not_of('\n');
  if (!text.starts_with("The following operation failed")) return one_line(first_line(text), 300);
  const std::size_t last = text.rfind("\nRuntimeError: ");
  const std::size_t begin = last == std::string::npos ? text.rfind('\n', end) : last;
  return first_line(text.substr(begin + 1));
}

PythonModel::PythonModel(std::string key, std::string name, std::span<const std::byte> archive)
    : key_(std::move(key)), name_(std::move(name)), digest_(ddp::worker::digest(archive)) {}

std::string PythonModel::identity() const {
  return key_ + ": file with checksum " + digest_;
}

void PythonModel::widen_tensors() {
  for (const bool is_buffer : {false, true}) {
    for (at::Tensor& tensor : is_buffer ? buffers() : parameters()) {
      if (!is_16_bit(tensor)) continue;
      tensor.set_data(tensor.detach().to(at::kFloat));
      had_16_bits_ = true;
    }
  }
}

void PythonModel::choose_heads(const PythonModelData& data, const Args& args) try {
  const at::NoGradGuard no_grad;
  const at::Tensor zeros =
      torch::zeros({2, data.channels, data.height, data.width}, parameters()[0].scalar_type());
  const std::vector<NamedTensor> trained = try_out(zeros, true);
  heads_ = named_heads(trained, args);
  for (const Head& head : heads_)
    require_scores(find(trained, head.name)->tensor, head.name, data.classes);
  const std::vector<NamedTensor> evaluated = try_out(zeros, false);
  const NamedTensor* const main = find_evaluated(evaluated, heads_[0].name);
  if (main == nullptr)
    throw UsageError("its output " + heads_[0].name + " is not there in evaluation mode");
  require_scores(main->tensor, main->name, data.classes);
} catch (const UsageError& error) {
  const std::string text = error.what();
  if (text.find("model.args.") != std::string::npos) throw;  // says where already
  throw UsageError(where() + ": " + text + ".");
} catch (const std::exception& error) {
  const std::vector<std::int64_t> shape{data.channels, data.height, data.width};
  const std::string casts = had_16_bits_
                                ? " Its tensors, in 16 bits in the file, are fp32 here: leave "
                                  "casts out of forward() and choose amp.level."
                                : "";
  throw UsageError(where() + ": does not take images of " + shape_text(shape) + ": " +
                   reason_of(error) +
                   ". Choose their size by data.image_size or a resize in data.augment, or write "
                   "the model for these." +
                   casts);
}

at::Tensor PythonModel::forward(at::Tensor x) {
  return forward_heads(std::move(x)).at(0);
}

std::vector<at::Tensor> PythonModel::forward_heads(at::Tensor x) {
  const std::vector<NamedTensor> outputs = run(std::move(x));
  std::vector<at::Tensor> scores;
  for (const Head& head : heads_) {
    const NamedTensor* const output =
        is_training() ? find(outputs, head.name) : find_evaluated(outputs, head.name);
    if (output == nullptr) {
      throw UsageError(where() + ": has not given its output " + head.name +
                       " for this batch. Give it for each, or leave it out of model.args.outputs.");
    }
    scores.push_back(output->tensor);
    if (!is_training()) break;
  }
  return scores;
}

}  // namespace ddp::worker
