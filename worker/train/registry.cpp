#include "worker/train/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/spelling.h"
#include "worker/data/augment/mosaic.h"
#include "worker/data/sets/class_names.h"
#include "worker/data/sets/detection_set.h"
#include "worker/data/sets/image_folder.h"
#include "worker/data/sets/memory_source.h"
#include "worker/data/sets/synthetic_set.h"
#include "worker/python/exported_model.h"
#include "worker/python/script_model.h"
#include "worker/save/format/zip_file.h"
#include "worker/save/trust.h"
#include "worker/task/classification.h"
#include "worker/task/detection.h"
#include "worker/task/multi_scale.h"

namespace ddp::worker {
namespace {

template <typename Factory>
std::vector<std::string_view> names_of(const std::map<std::string, Factory>& known) {
  std::vector<std::string_view> names;
  for (const auto& [name, factory] : known)
    names.push_back(name);
  return names;
}

void require(const std::vector<std::string_view>& known,
             const char* key,
             const std::string& name,
             std::vector<std::string>& problems) {
  if (std::ranges::find(known, name) != known.end()) return;
  const std::optional<std::string> near = did_you_mean(name, known);
  problems.push_back(std::string(key) + ": this program has no \"" + name + "\"" +
                     (near ? ", did you mean \"" + *near + "\"?" : ".") +
                     " It has: " + (known.empty() ? "none" : join_words(known)) + ".");
}

/// Errors: UsageError for names that would collide in a checkpoint.
void require_names(const UpdateRule& rule, const OptimizerJob& job) {
  std::set<std::string> names;
  for (const UpdateRule::State& state : rule.state()) {
    const std::string& name = state.name;
    // Built-in rules may use "": the parameter's own name.
    const bool is_taken = name == "master" || name == "ema" || !names.insert(name).second;
    if (!is_taken && !(name.empty() && job.name == OptimizerJob::Name::registered)) continue;
    throw UsageError("optimizer.name: " + job.name_in_job + " keeps a state called \"" + name +
                     "\" (UpdateRule::state()), which " +
                     (name.empty() ? "is not a name" : "is taken") +
                     ". Give each state a name of its own.");
  }
}

/// Errors: UsageError.
Model make_python_model(const TaskRequest& request) {
  const DataFacts& data = request.data;
  const ModelJob& job = request.job.model;
  const std::shared_ptr<PythonModel> model =
      read_python_file(*job.python_file, job.is_exported, request.job.checkpoint.trust).model;
  model->choose_heads({data.shape[0], data.shape[1], data.shape[2], data.classes}, job.args);
  return model;
}

Model make_model(const TaskRequest& request) {
  const DataFacts& data = request.data;
  if (request.job.model.python_file) return make_python_model(request);
  ModelRequest model;
  model.name = request.job.model.name;
  model.channels = data.shape[0];
  model.height = data.shape[1];
  model.width = data.shape[2];
  model.classes = data.classes;
  model.norm = request.norm;
  model.stem = request.job.model.stem;
  model.args = request.job.model.args;
  return request.registry.models.at(model.name)(model);
}

std::unique_ptr<Task> make_classification(const TaskRequest& request) {
  const LossFactory& make_loss = request.registry.losses.at(request.job.loss.name);
  LossJob plain = request.job.loss;
  plain.label_smoothing = 0;  // smoothing helps training, but an evaluation must not depend on it
  return std::make_unique<Classification>(
      make_image_model(request), make_loss(request.job.loss), make_loss(plain));
}

constexpr const char* kDetectionLoss = "detection";

std::unique_ptr<Task> make_detection(const TaskRequest& request) {
  const DataFacts& data = request.data;
  if (!data.has_boxes) {
    throw UsageError("task.name: detection needs images with boxes, and " + data.name +
                     " has none. Take data.name=coco, or another task.");
  }
  if (data.shape.size() != 3 || data.classes < 1 ||
      std::cmp_greater(data.class_names.size(), data.classes)) {
    throw UsageError("task.name: detection needs images in classes, and " + data.name +
                     " has samples of " + shape_text(data.shape) + " and " +
                     std::to_string(data.class_names.size()) + " names for " +
                     std::to_string(data.classes) + " classes.");
  }
  const std::string& loss = request.job.loss.name;
  if (loss != kDetectionLoss) {
    throw UsageError("loss.name: " + loss + " is not a loss of boxes. Take loss.name=" +
                     kDetectionLoss + " for task.name=detection.");
  }
  if (request.job.loss.label_smoothing != 0)
    throw UsageError("loss.label_smoothing: the scores of boxes are not labels. Remove the key.");
  auto model = std::dynamic_pointer_cast<Detector>(make_model(request));
  if (!model) {
    throw UsageError("model.name: " + request.job.model.name +
                     " finds no objects. Take a detector, as yolov5n or yolov8n, for "
                     "task.name=detection.");
  }
  std::vector<std::string> names;
  for (int i = 0; i < data.classes; ++i)
    names.push_back(class_name(static_cast<std::size_t>(i), data));
  const ImageSize size{static_cast<int>(data.shape.at(1)), static_cast<int>(data.shape.at(2))};
  const double multi_scale = request.job.task.args.real("multi_scale", 0, 1, 0.0);
  if (multi_scale > 0 && !has_scales(size, multi_scale, Detector::kStrides.back())) {
    throw UsageError(fmt::format(
        "task.args.multi_scale: {} of {} pixels reaches no other size of the model's (multiples of "
        "{}). Take a larger share, or remove it.",
        multi_scale,
        std::max(size.height, size.width),
        Detector::kStrides.back()));
  }
  return std::make_unique<ObjectDetection>(std::move(model),
                                           read_detection_loss(request.job.loss.args),
                                           std::move(names),
                                           size,
                                           multi_scale);
}

/// Refuses a mosaic after a mosaic or a mixup: each of its four images would be a mosaic, or two
/// images. Errors: UsageError.
void require_plain_mosaic(const std::vector<AugmentJob>& list) {
  std::string before;  // an entry that a mosaic must not follow
  for (const AugmentJob& augment : list) {
    if (augment.name == "mosaic" && !before.empty()) {
      throw UsageError("data.augment: a mosaic comes behind " + before +
                       ". It puts single images together: give one mosaic, and mixup behind it.");
    }
    if (augment.name == "mosaic" || augment.name == "mixup") before = "a " + augment.name;
  }
}

/// The factory of loss "detection", which only task "detection" can use.
Criterion refuse_detection_loss(const LossJob& job) {
  throw UsageError("loss.name: " + job.name +
                   " needs boxes. Take task.name=detection, or loss.name=cross-entropy.");
}

}  // namespace

Registry built_in() {
  Registry registry;
  registry.tasks["classification"] = make_classification;
  registry.tasks["detection"] = make_detection;
  registry.models = built_in_models();
  for (const BuiltInSet& set : built_in_sets())
    registry.data_sets[std::string(set.name)] = load_data_set;
  registry.sources["image-folder"] = load_image_folder;
  registry.sources["coco"] = load_detection_set;
  registry.sources["synthetic"] = make_synthetic_set;
  registry.augments = built_in_augments();
  registry.losses["cross-entropy"] = [](const LossJob& job) {
    return make_cross_entropy(job.label_smoothing);
  };
  registry.losses[kDetectionLoss] = refuse_detection_loss;
  registry.metrics["top-5"] = [](const DataFacts& data) {
    if (data.has_boxes)
      throw UsageError("eval.metrics: top-5 is of images in classes, and " + data.name +
                       " has boxes. Remove it.");
    return make_top_k(5, data.classes);
  };
  for (const char* const name : {"sgd", "adam", "adamw"})
    registry.optimizers[name] = make_update_rule;
  return registry;
}

PythonFile read_python_file(const std::filesystem::path& path, bool is_exported, bool trust) {
  PythonFile file;
  try {
    file.archive = read_trusted(path, trust);
    require_whole_zip(file.archive, path.string());
  } catch (const UsageError& error) {
    throw UsageError((is_exported ? "model.export: " : "model.script: ") +
                     std::string(error.what()));
  }
  if (is_exported)
    file.model = std::make_shared<ExportedModel>(path.string(), file.archive);
  else
    file.model = std::make_shared<ScriptModel>(path.string(), file.archive);
  return file;
}

std::unique_ptr<UpdateRule> make_rule(const Registry& registry, const Job& job) {
  const std::string& name = job.optimizer.name_in_job;
  std::unique_ptr<UpdateRule> rule = registry.optimizers.at(name)(job.optimizer);
  job.optimizer.args.require_all_read(name);
  require_names(*rule, job.optimizer);
  return rule;
}

std::vector<Augment> make_augments(const Registry& registry,
                                   const DataJob& job,
                                   const DataFacts& data,
                                   std::int64_t epochs) {
  std::vector<Augment> augments;
  require_plain_mosaic(job.augment);
  for (const AugmentJob& augment : job.augment) {
    augments.push_back(registry.augments.at(augment.name)({augment.args, data, augments, epochs}));
    augment.args.require_all_read(augment.name);
  }
  if (data.has_varying_size || has_mosaic(augments)) augments.push_back(fit(data));
  return augments;
}

Model make_image_model(const TaskRequest& request) {
  const DataFacts& data = request.data;
  if (data.has_boxes) {
    throw UsageError("task.name: " + request.job.task.name +
                     " needs one class for each image, and " + data.name +
                     " has boxes. Take task.name=detection with loss.name=detection, a data set of "
                     "classes, or a task of your own.");
  }
  if (data.shape.size() != 3 || data.classes < 1) {
    throw UsageError("task.name: " + request.job.task.name + " needs images in classes, and " +
                     data.name + " holds none. Take a data set of images, or another task.");
  }
  Model model = make_model(request);
  if (std::dynamic_pointer_cast<Detector>(model)) {
    throw UsageError("model.name: " + request.job.model.name +
                     " finds objects. Take a model of scores, as resnet18, or "
                     "task.name=detection.");
  }
  return model;
}

void require_known(const Registry& registry, const Job& job) {
  std::vector<std::string> problems;
  std::vector<std::string_view> data = names_of(registry.data_sets);
  for (const std::string_view name : names_of(registry.sources))
    data.push_back(name);
  require(data, "data.name", job.data.name, problems);
  for (const AugmentJob& augment : job.data.augment)
    require(names_of(registry.augments), "data.augment", augment.name, problems);
  require(names_of(registry.tasks), "task.name", job.task.name, problems);
  if (!job.model.python_file)
    require(names_of(registry.models), "model.name", job.model.name, problems);
  require(names_of(registry.losses), "loss.name", job.loss.name, problems);
  for (const std::string& name : job.evaluation.metrics)
    require(names_of(registry.metrics), "eval.metrics", name, problems);
  require(names_of(registry.optimizers), "optimizer.name", job.optimizer.name_in_job, problems);
  if (!problems.empty()) throw UsageError(problems);
}

}  // namespace ddp::worker
