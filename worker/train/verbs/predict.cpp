#include "worker/train/verbs/predict.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iostream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/job/resolve_job.h"
#include "common/text/json_text.h"
#include "common/text/one_line.h"
#include "worker/data/augment/augment.h"
#include "worker/data/loading/loader.h"
#include "worker/data/sets/class_names.h"
#include "worker/data/sets/image_folder.h"
#include "worker/data/sets/unlabelled_images.h"
#include "worker/dist/single_process_group.h"
#include "worker/save/checkpoint/model_tensors.h"
#include "worker/train/step/forward.h"
#include "worker/train/step/precision.h"
#include "worker/train/task_setup.h"
#include "worker/train/verbs/object_printer.h"
#include "worker/train/verbs/prediction_printer.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

constexpr std::int64_t kBatch = 32;  // as in evaluations on a CPU, so that sums are the same

/// Images, and how an evaluation prepares them.
struct Prepared {
  std::shared_ptr<const Source> source;
  Augment fit;
};

/// Objects are found in the whole image, classes in its middle.
Prepared prepare_images(const std::vector<NamedImage>& images, const DataFacts& data) {
  const int side = static_cast<int>(data.shape.at(1));
  if (data.has_boxes) return {std::make_shared<UnlabelledImages>(images, data), letterbox(side)};
  ImageList list;
  for (const NamedImage& image : images) {
    list.files.push_back(image.path.string());
    list.labels.push_back(0);
  }
  return {std::make_shared<ImageFolder>(std::move(list), data, fitted_side(side)), fit_to(side)};
}

/// Errors: UsageError for a checkpoint whose model does not take images, and for options that do
/// not fit what the model finds in them.
const DataFacts& require_images(const LoadedCheckpoint& checkpoint, const Options& options) {
  const DataFacts& data = checkpoint.head.data.value();
  if (!data.has_boxes && (options.output || options.confidence || options.iou)) {
    throw UsageError(checkpoint.path.string() +
                     ": names the class of an image; -o, --confidence and --iou are for "
                     "checkpoints that find objects (task.name: detection). Leave them out.");
  }
  const bool is_square = data.shape.size() == 3 && data.shape[1] == data.shape[2];
  if (data.classes > 0 && is_square && (data.shape[0] == 1 || data.shape[0] == 3)) return data;
  throw UsageError(checkpoint.path.string() + ": was trained on " + one_line(data.name) + " (" +
                   shape_text(data.shape) + ", " + std::to_string(data.classes) +
                   " classes); predict names the classes of square images in grey or color, or the "
                   "objects in them.");
}

/// The likeliest classes of one image.
struct Answer {
  std::string image;
  std::vector<std::pair<std::int64_t, double>> classes;  // number, probability
};

std::string to_text(const Answer& answer, const DataFacts& data) {
  std::string text = answer.image;
  for (const auto& [number, probability] : answer.classes)
    text += fmt::format(
        "  {} {:.2f} %", class_name(static_cast<std::size_t>(number), data), 100 * probability);
  return one_line(text, kMaxLineBytes);
}

std::string to_json(const Answer& answer, const DataFacts& data) {
  json::array classes;
  for (const auto& [number, probability] : answer.classes) {
    classes.push_back({{"class", class_name(static_cast<std::size_t>(number), data)},
                       {"number", number},
                       {"probability", probability}});
  }
  return json_text(
      json::object{{"image", json_utf8(answer.image)}, {"classes", std::move(classes)}});
}

class ClassPrinter : public PredictionPrinter {
 public:
  /// All outlive it.
  ClassPrinter(const std::vector<NamedImage>& images, const DataFacts& data, const Options& options)
      : images_(images), data_(data), options_(options) {}

  std::size_t print(const Batch& batch, const Outputs& outputs) override {
    const bool has_scores = outputs.size() == 1 && outputs[0].dim() == 2 &&
                            outputs[0].size(0) == batch.size() &&
                            outputs[0].size(1) == data_.classes;
    if (!has_scores)
      throw UsageError(
          "predict: this checkpoint's task gives no score for each class of an image.");
    const at::Tensor probabilities =
        outputs[0].to(at::kCPU, at::kDouble).softmax(1);  // [B, classes]
    const int top = std::min(options_.top.value_or(1), data_.classes);
    const auto [values, numbers] = probabilities.topk(top, 1);  // [B, k]
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const auto index = static_cast<std::size_t>(batch.indices[static_cast<std::size_t>(i)]);
      Answer answer{images_.at(index).path.string(), {}};
      for (std::int64_t k = 0; k < values.size(1); ++k)
        answer.classes.emplace_back(numbers[i][k].item<std::int64_t>(),
                                    values[i][k].item<double>());
      std::cout << (options_.is_json ? to_json(answer, data_) : to_text(answer, data_)) << '\n';
    }
    std::cout << std::flush;
    return 0;
  }

 private:
  const std::vector<NamedImage>& images_;
  const DataFacts& data_;
  const Options& options_;
};

void print_bad(const Loader::Bad& bad, const std::vector<NamedImage>& images, bool is_json) {
  for (const auto& [index, why] : bad) {
    std::cerr << "ddp-worker: " << one_line(why, kMaxLineBytes) << std::endl;
    if (!is_json) continue;
    const std::string image = images.at(static_cast<std::size_t>(index)).path.string();
    const json::object line{{"image", json_utf8(image)}, {"error", json_utf8(why)}};
    std::cout << json_text(line) << std::endl;
  }
}

/// Batches with each of `count` samples once, in order.
Loader::NextMicroBatch plans_of(std::int64_t count) {
  return [next = std::int64_t{0}, count]() mutable -> std::optional<MicroBatch> {
    if (next == count) return {};
    MicroBatch batch;
    batch.indices.resize(static_cast<std::size_t>(std::min(kBatch, count - next)));
    std::iota(batch.indices.begin(), batch.indices.end(), next);
    next += static_cast<std::int64_t>(batch.indices.size());
    return batch;
  };
}

}  // namespace

JobValues job_of(const LoadedCheckpoint& checkpoint) {
  if (!checkpoint.head.data) {
    throw UsageError(checkpoint.path.string() +
                     ": was saved by an older version, which did not tell what the model takes. "
                     "Resume its run and save again, or take ddp-worker eval.");
  }
  std::vector<JobOverride> overrides;
  for (const auto& [path, value] : checkpoint.head.job)
    overrides.push_back({path, value, checkpoint.path.string()});
  overrides.push_back({"data.root", ".", "predict"});  // some sets require it; nothing is read
  return resolve_job(nullptr, overrides);
}

int predict(const RankContext& context,
            const LoadedCheckpoint& checkpoint,
            const Options& options) {
  if (context.self.world_size > 1)
    throw UsageError("predict is for one process, this is " + describe(context.self) +
                     ". Start it without a launcher.");
  const DataFacts& data = require_images(checkpoint, options);
  const std::vector<NamedImage> images = find_images(std::span(options.files).subspan(1));
  const at::NoGradGuard no_grad;
  Job job = make_job(context.job, 1);
  job.model.weights.reset();
  const Device device = prepare_device(job, context);
  const std::unique_ptr<Group> alone = single_process_group();
  const std::unique_ptr<Task> task = make_task(job, data, context.registry, *alone);
  Precision precision(job.amp, device.device);
  precision.prepare(task->model());
  task->model().to(device.device);
  load_for_evaluation(checkpoint, job.identity, task->model());
  task->model().eval();
  task->fuse();
  const Forward forward(*task, precision, device.device);

  const std::unique_ptr<PredictionPrinter> answers =
      data.has_boxes ? make_object_printer(images, data, options)
                     : std::make_unique<ClassPrinter>(images, data, options);
  const Prepared prepared = prepare_images(images, data);
  const bool is_double = parameters_of(task->model()).at(0).tensor.scalar_type() == at::kDouble;
  Loader loader(prepared.source,
                {.type = is_double ? at::kDouble : at::kFloat,
                 .layout = layout_of(task->model()),
                 .augments = {prepared.fit},
                 .threads = 2,
                 .on_bad = LoaderOptions::OnBad::leave_out});
  const std::int64_t count = prepared.source->facts().count;
  loader.start(plans_of(count));
  std::size_t unread = 0;
  for (std::int64_t done = 0; done < count; done += kBatch) {
    const Batch batch = loader.next();
    const Loader::Bad bad = loader.take_bad_samples();
    print_bad(bad, images, options.is_json);
    unread += bad.size();
    if (batch.size() > 0) unread += answers->print(batch, forward.outputs(batch));
  }
  answers->finish();
  if (unread == 0) return exit_code::kOk;
  std::cerr << "ddp-worker: " << unread << " of " << count << " images cannot be read" << std::endl;
  return exit_code::kUsage;
}

}  // namespace ddp::worker
