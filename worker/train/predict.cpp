#include "worker/train/predict.h"

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
#include "common/one_line.h"
#include "common/utf8.h"
#include "worker/data/image_folder.h"
#include "worker/data/loader.h"
#include "worker/dist/alone.h"
#include "worker/save/model_tensors.h"
#include "worker/train/forward.h"
#include "worker/train/precision.h"
#include "worker/train/task_setup.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

constexpr std::int64_t kBatch = 32;     // as evaluations on a CPU: the same sums
constexpr std::size_t kLongest = 8192;  // of a line: a path may have 4096 bytes

/// The images that were asked for, as a set like that of the training.
std::shared_ptr<const Source> make_source(const Options& options, const DataFacts& data) {
  FileList list;
  for (const std::filesystem::path& path : std::span(options.files).subspan(1)) {
    list.files.push_back(path.string());
    list.labels.push_back(0);
  }
  return std::make_shared<ImageFolder>(
      std::move(list), data, fitted_side(static_cast<int>(data.shape.at(1))));
}

/// Errors: UsageError for a checkpoint whose model does not name classes of images.
const DataFacts& require_classes(const LoadedCheckpoint& checkpoint) {
  const DataFacts& data = checkpoint.head.data.value();
  const bool is_square = data.shape.size() == 3 && data.shape[1] == data.shape[2];
  if (data.classes > 0 && is_square && (data.shape[0] == 1 || data.shape[0] == 3)) return data;
  throw UsageError(checkpoint.path.string() + ": was trained on " + one_line(data.name) + " (" +
                   shape_text(data.shape) + ", " + std::to_string(data.classes) +
                   " classes); predict names the classes of square images in grey or color.");
}

std::string class_name(std::int64_t number, const DataFacts& data) {
  const auto place = static_cast<std::size_t>(number);
  return place < data.class_names.size() ? data.class_names[place] : std::to_string(number);
}

/// The likeliest classes of one image.
struct Answer {
  std::string image;
  std::vector<std::pair<std::int64_t, double>> classes;  // number, probability
};

std::string to_text(const Answer& answer, const DataFacts& data) {
  std::string text = answer.image;
  for (const auto& [number, probability] : answer.classes)
    text += fmt::format("  {} {:.2f} %", class_name(number, data), 100 * probability);
  return one_line(text, kLongest);
}

/// JSON is UTF-8, a path any bytes.
std::string json_text(const std::string& text) {
  return valid_utf8(text) == text.size() ? text : one_line(text, kLongest);
}

std::string to_json(const Answer& answer, const DataFacts& data) {
  json::array classes;
  for (const auto& [number, probability] : answer.classes) {
    classes.push_back(
        {{"class", class_name(number, data)}, {"number", number}, {"probability", probability}});
  }
  return json::serialize(
      json::object{{"image", json_text(answer.image)}, {"classes", std::move(classes)}});
}

class Prediction {
 public:
  /// All outlive it.
  Prediction(const Forward& forward, const DataFacts& data, const Options& options)
      : forward_(forward), data_(data), options_(options) {}

  /// Of one batch. Errors: UsageError for a task that gives no scores.
  void print(const Batch& batch) const {
    const Outputs outputs = forward_.run(batch, Forward::Mode::evaluation).outputs;
    const bool has_scores = outputs.size() == 1 && outputs[0].dim() == 2 &&
                            outputs[0].size(0) == batch.size() &&
                            outputs[0].size(1) == data_.classes;
    if (!has_scores)
      throw UsageError(
          "predict: this checkpoint's task gives no score for each class of an image.");
    const at::Tensor shares = outputs[0].to(at::kCPU, at::kDouble).softmax(1);  // [B, classes]
    const auto [values, numbers] = shares.topk(std::min(options_.top, data_.classes), 1);  // [B, k]
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      Answer answer{image(batch.indices[static_cast<std::size_t>(i)]), {}};
      for (std::int64_t k = 0; k < values.size(1); ++k)
        answer.classes.emplace_back(numbers[i][k].item<std::int64_t>(),
                                    values[i][k].item<double>());
      std::cout << (options_.is_json ? to_json(answer, data_) : to_text(answer, data_)) << '\n';
    }
    std::cout << std::flush;
  }

  void print_bad(const Loader::Bad& bad) const {
    for (const auto& [index, why] : bad) {
      std::cerr << "ddp-worker: " << one_line(why, kLongest) << std::endl;
      if (options_.is_json)
        std::cout << json::object{{"image", json_text(image(index))}, {"error", json_text(why)}}
                  << std::endl;
    }
  }

 private:
  [[nodiscard]] std::string image(std::int64_t index) const {
    return options_.files.at(static_cast<std::size_t>(index) + 1).string();
  }

  const Forward& forward_;
  const DataFacts& data_;
  const Options& options_;
};

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
  overrides.push_back({"data.root", ".", "predict"});  // some sets must have one; nothing is read
  return resolve_job(nullptr, overrides);
}

int predict(const Session& session, const LoadedCheckpoint& checkpoint, const Options& options) {
  if (session.self.world_size > 1)
    throw UsageError("predict is for one process, this is " + describe(session.self) +
                     ". Start it without a launcher.");
  const at::NoGradGuard no_grad;
  Job job = make_job(session.job, 1);
  job.model.weights.reset();
  const Device device = prepare_device(job, session);
  const DataFacts& data = require_classes(checkpoint);
  const std::unique_ptr<Group> alone = make_alone();
  const std::unique_ptr<Task> task = make_task(job, data, session.registry, *alone);
  Precision precision(job.amp, device.device);
  precision.prepare(task->model());
  task->model().to(device.device);
  put_evaluated(checkpoint, job.identity, task->model());
  task->model().eval();
  task->fuse();
  const Forward forward(*task, precision, device.device);

  const std::shared_ptr<const Source> source = make_source(options, data);
  const bool is_double = parameters_of(task->model()).at(0).tensor.scalar_type() == at::kDouble;
  Loader loader(source,
                {.type = is_double ? at::kDouble : at::kFloat,
                 .layout = layout_of(task->model()),
                 .augments = {fit_to(static_cast<int>(data.shape[1]))},
                 .threads = 2,
                 .on_bad = LoaderRequest::OnBad::leave_out});
  const std::int64_t count = source->facts().count;
  loader.start([next = std::int64_t{0}, count]() mutable -> std::optional<MicroBatch> {
    if (next == count) return {};
    MicroBatch batch;
    batch.indices.resize(static_cast<std::size_t>(std::min(kBatch, count - next)));
    std::iota(batch.indices.begin(), batch.indices.end(), next);
    next += static_cast<std::int64_t>(batch.indices.size());
    return batch;
  });
  const Prediction prediction(forward, data, options);
  std::size_t unread = 0;
  for (std::int64_t done = 0; done < count; done += kBatch) {
    const Batch batch = loader.next();
    const Loader::Bad bad = loader.take_bad_samples();
    prediction.print_bad(bad);
    unread += bad.size();
    if (batch.size() > 0) prediction.print(batch);
  }
  if (unread == 0) return exit_code::kOk;
  std::cerr << "ddp-worker: " << unread << " of " << count << " images cannot be read" << std::endl;
  return exit_code::kUsage;
}

}  // namespace ddp::worker
