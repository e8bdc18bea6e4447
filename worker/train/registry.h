// All that a job file may name: tasks, models, losses, metrics, optimizers, data sets and
// augmentations, built in or of a user's program; and the program's hooks. A plain value, passed to
// run().
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/data/augment/augment.h"
#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"
#include "worker/model/model_factory.h"
#include "worker/plan/job.h"
#include "worker/task/loss.h"
#include "worker/task/task.h"
#include "worker/train/hooks.h"
#include "worker/train/step/update_rule.h"

namespace ddp::worker {

class PythonModel;
struct Registry;

/// Reads or draws an image set into memory, the same on every rank. Errors: UsageError (printed
/// once).
using DataSetFactory = std::function<DataSet(const DataRequest&)>;
/// The same for any kind of data.
using SourceFactory = std::function<Sources(const DataRequest&)>;
using LossFactory = std::function<Criterion(const LossJob&)>;
/// Makes a metric for the given data, at the start of each evaluation. Errors: UsageError.
using MetricFactory = std::function<std::unique_ptr<Metric>(const DataFacts&)>;
using OptimizerFactory = std::function<std::unique_ptr<UpdateRule>(const OptimizerJob&)>;

struct TaskRequest {
  const Job& job;
  const DataFacts& data;  // of the training set
  MakeNorm norm;          // for models with norm layers
  const Registry& registry;
};
/// Called on every rank with the same seed, so that weights are drawn alike. Errors: UsageError.
using TaskFactory = std::function<std::unique_ptr<Task>(const TaskRequest&)>;

struct Registry : Hooks {
  std::map<std::string, TaskFactory> tasks;            // by task.name
  std::map<std::string, ModelFactory> models;          // by model.name
  std::map<std::string, LossFactory> losses;           // by loss.name
  std::map<std::string, MetricFactory> metrics;        // by the names in eval.metrics
  std::map<std::string, OptimizerFactory> optimizers;  // by optimizer.name
  std::map<std::string, DataSetFactory> data_sets;     // by data.name
  std::map<std::string, SourceFactory> sources;        // by data.name
  std::map<std::string, AugmentFactory> augments;      // by the names in data.augment
};

/// The built-in entries, as the job file's reference lists them.
Registry built_in();

struct PythonFile {
  std::vector<std::byte> archive;  // whole by its checksums
  std::shared_ptr<PythonModel> model;
};

/// The file of model.export, or of model.script. Errors: UsageError; SystemError (reading).
PythonFile read_python_file(const std::filesystem::path& path, bool is_exported, bool trust);

/// The job's model, for images as `data` describes them. Errors: UsageError, also for data that are
/// not images in classes.
Model make_image_model(const TaskRequest& request);

/// The update rule of the job. Errors: UsageError, also when two of its states have the same name.
std::unique_ptr<UpdateRule> make_rule(const Registry& registry, const Job& job);

/// The augmentations in data.augment, for a training of `epochs` epochs. Errors: UsageError.
std::vector<Augment> make_augments(const Registry& registry,
                                   const DataJob& job,
                                   const DataFacts& data,
                                   std::int64_t epochs = 0);

/// Errors: UsageError with all names in the job that the registry does not have.
void require_known(const Registry& registry, const Job& job);

}  // namespace ddp::worker
