#include "worker/train/python_import.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "worker/plan/epoch_number.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/save/checkpoint/weights.h"
#include "worker/save/format/python_checkpoint.h"

namespace ddp::worker {
namespace {

constexpr std::string_view kMomentum = "momentum_buffer";  // torch's name for SGD's momentum

/// Copies `tensors` into a file in memory.
TensorFile pack(const std::vector<NamedTensor>& tensors) {
  std::size_t size = 0;
  for (const NamedTensor& one : tensors)
    size += one.tensor.nbytes();
  std::vector<std::byte> bytes(size);
  std::vector<TensorView> views = view(tensors);
  std::size_t place = 0;
  for (TensorView& one : views) {
    const std::size_t length = one.bytes.size();
    if (length > 0) std::memcpy(bytes.data() + place, one.bytes.data(), length);
    one.bytes = std::span<const std::byte>(bytes).subspan(place, length);
    place += length;
  }
  return {std::move(bytes), std::move(views)};
}

/// By a parameter's name, the state that the file's optimizer has for it.
using States = std::map<std::string, const PythonParameter*>;

class Import {
 public:
  Import(const ImportRequest& request, const PythonCheckpoint& file)
      : request_(request),
        file_(file),
        where_(request.path.string()),
        model_(copies(request.shared.model)),
        optimizer_(copies(request.shared.optimizer)) {
    for (NamedTensor& one : copies(request.shared.policy))
      optimizer_.push_back(std::move(one));
  }

  LoadedCheckpoint run() {
    const LoadReport report = load_weights(file_.model, where_, model_, /*strict=*/false);
    if (!report.different.empty() || !report.missing.empty() || !report.unexpected.empty()) {
      throw UsageError("cannot resume from " + where_ +
                       ", its model is not this job's. Set model.name and model.args as the script "
                       "has them.\n" +
                       to_text(report));
    }
    const States states = assign();
    std::size_t taken = 0;
    for (const NamedTensor& one : optimizer_)
      if (fill(one, states)) ++taken;
    require_all(taken);
    std::cout << to_text(report) << std::flush;
    notify(taken);
    LoadedCheckpoint checkpoint{request_.path, {}, pack(model_), pack(optimizer_), {}};
    checkpoint.head.epoch = file_.epoch;
    checkpoint.head.step = steps();
    checkpoint.head.batch = request_.job.batch.global_batch;
    checkpoint.head.job = request_.job.identity;
    return checkpoint;
  }

 private:
  [[nodiscard]] std::int64_t steps() const { return file_.epoch * request_.steps_per_epoch; }

  [[nodiscard]] const at::Tensor& model_tensor(const std::string& name) const {
    for (const NamedTensor& one : model_)
      if (one.name == name) return one.tensor;
    throw std::logic_error("no tensor of the model is called " + name);
  }

  /// The parameters in `wanted`, in the order of the file, which is that of Python's
  /// model.parameters().
  [[nodiscard]] std::vector<std::string> in_order(const std::set<std::string>& wanted) const {
    std::vector<std::string> order;
    for (const TensorView& saved : file_.model) {
      const std::string name = model_name(saved.name, wanted);
      if (wanted.contains(name)) order.push_back(name);
    }
    return order;
  }

  /// Matches the optimizer's parameters to the model's. Errors: UsageError.
  [[nodiscard]] States assign() const {
    const std::vector<PythonParameter>& saved = file_.optimizer.parameters;
    const std::set<std::string> all(request_.parameters.begin(), request_.parameters.end());
    std::set<std::string> trained;
    for (const NamedTensor& one : request_.trained)
      trained.insert(one.name);
    const std::vector<std::string> names = in_order(saved.size() == trained.size() ? trained : all);
    if (saved.size() != names.size()) {
      throw UsageError(where_ + ": its optimizer has " + std::to_string(saved.size()) +
                       " parameters, the model has " + std::to_string(names.size()) + ", " +
                       std::to_string(trained.size()) +
                       " of them trained. Set model.freeze as the script does.");
    }
    States states;
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const std::string name = saved[i].name.empty() ? names[i] : model_name(saved[i].name, all);
      if (!all.contains(name) || !states.emplace(name, &saved[i]).second) {
        throw UsageError(where_ + ": its optimizer has a parameter called " +
                         one_line(saved[i].name) + ", which the model has not, or twice.");
      }
      for (const TensorView& one : saved[i].tensors)
        require_shape(name, one);
    }
    return states;
  }

  // Detects a wrong order by shapes: a script with weight decay for weights only puts them before
  // all biases.
  void require_shape(const std::string& name, const TensorView& saved) const {
    const at::Tensor& tensor = model_tensor(name);
    if (saved.shape.empty() || tensor.sizes() == saved.shape) return;
    const char* const why =
        file_.optimizer.groups > 1
            ? ". It has several groups of parameters, and which is which it does not say. Make it "
              "from named parameters in Python: then it holds param_names."
            : ". It was made for another model.";
    throw UsageError(where_ + ": its optimizer keeps " + one_line(saved.name) + " of " +
                     describe(saved.dtype, saved.shape) + " where the model has " + name + " of " +
                     describe(dtype_name(tensor.scalar_type()), tensor.sizes()) + why);
  }

  /// Copies the file's value into a tensor of this job's optimizer. Returns whether the file has
  /// it.
  [[nodiscard]] bool fill(const NamedTensor& ours, const States& states) const {
    // SGD's momentum has the parameter's own name.
    if (const auto found = states.find(ours.name); found != states.end())
      return fill(ours.tensor, *found->second, kMomentum);
    const std::size_t dot = ours.name.rfind('.');
    const std::string owner = ours.name.substr(0, dot);
    const std::string part = dot == std::string::npos ? "" : ours.name.substr(dot + 1);
    if (part == "ema" || part == "master") {
      ours.tensor.copy_(model_tensor(owner));
      return false;
    }
    const auto found = states.find(owner);
    return found != states.end() && fill(ours.tensor, *found->second, part);
  }

  static bool fill(const at::Tensor& ours, const PythonParameter& saved, std::string_view part) {
    if (const std::optional<double> number = find_value(saved.numbers, part);
        number && ours.dim() == 0) {
      ours.fill_(*number);
      return true;
    }
    for (const TensorView& one : saved.tensors) {
      if (one.name != part || ours.sizes() != one.shape) continue;
      ours.copy_(to_tensor(one));
      return true;
    }
    return false;
  }

  /// The kinds of state in the file's optimizer: "exp_avg, exp_avg_sq, step".
  [[nodiscard]] std::string kinds() const {
    std::set<std::string> kinds;
    for (const PythonParameter& one : file_.optimizer.parameters) {
      for (const TensorView& tensor : one.tensors)
        kinds.insert(one_line(tensor.name));
      for (const auto& [name, number] : one.numbers)
        kinds.insert(one_line(name));
    }
    return join_words(kinds);
  }

  /// Errors: UsageError when the file's optimizer keeps state that this job's optimizer does not
  /// have.
  void require_all(std::size_t taken) const {
    std::size_t kept = 0;
    for (const PythonParameter& one : file_.optimizer.parameters)
      kept += one.tensors.size() + one.numbers.size();
    if (taken == kept) return;
    throw UsageError(where_ + ": its optimizer keeps " + kinds() + " of parameters, in all " +
                     std::to_string(kept) + " tensors and numbers, of which optimizer.name=" +
                     request_.job.optimizer.name_in_job + " of this job takes " +
                     std::to_string(taken) + ". Set the optimizer that the script has.");
  }

  void notify(std::size_t taken) const {
    const std::string list = kinds();
    std::cout << "optimizer: " << taken << " tensors of " << where_
              << (list.empty() ? "" : " (" + list + ")")
              << "; the rate is the job's schedule at step " << steps()
              << (file_.scheduler_steps ? ", nothing of the file's scheduler is used" : "")
              << std::endl;
    warn_of_steps();
    warn_of_settings();
  }

  void warn_of_steps() const {
    if (!file_.scheduler_steps) return;
    const std::int64_t made = *file_.scheduler_steps;
    if (made == file_.epoch || made == steps()) return;
    log::warning(where_ + ": its scheduler has made " + std::to_string(made) +
                 " steps, and this run goes on with epoch " +
                 std::to_string(epoch_number(file_.epoch)) + ", after " + std::to_string(steps()) +
                 " steps. If the file means another, say checkpoint.keys={epoch: NUMBER}, how many "
                 "are done.");
  }

  void warn_of_settings() const {
    const OptimizerJob& job = request_.job.optimizer;
    if (job.name == OptimizerJob::Name::registered) return;
    // Compares the initial learning rate, because a scheduler has changed the current one.
    NamedValues ours{{"initial_lr", job.lr},
                     {"weight_decay", job.weight_decay},
                     {"amsgrad", 0},
                     {"maximize", 0}};
    if (job.name == OptimizerJob::Name::sgd) {
      ours.insert(
          ours.end(),
          {{"momentum", job.momentum}, {"nesterov", job.nesterov ? 1.0 : 0.0}, {"dampening", 0}});
    } else {
      ours.insert(ours.end(), {{"beta1", job.beta1}, {"beta2", job.beta2}, {"eps", job.eps}});
    }
    std::vector<std::string> others;
    for (const auto& [name, value] : ours) {
      const std::optional<double> saved = find_value(file_.optimizer.settings, name);
      if (!saved || *saved == value) continue;
      others.push_back(fmt::format("{} {} (this job: {})", name, *saved, value));
    }
    if (!others.empty())
      log::warning(where_ + " was saved with " + join_words(others) + "; what the job says counts");
  }

  const ImportRequest& request_;
  const PythonCheckpoint& file_;
  std::string where_;
  std::vector<NamedTensor> model_;
  std::vector<NamedTensor> optimizer_;
};

}  // namespace

LoadedCheckpoint import_python_checkpoint(const ImportRequest& request) {
  const at::NoGradGuard no_grad;
  const CheckpointJob& job = request.job.checkpoint;
  const PythonCheckpoint file = read_python_checkpoint(request.path, job.keys, job.trust);
  return Import(request, file).run();
}

}  // namespace ddp::worker
