// What a job file may name: models, data sets and losses, the built-in ones and those of a program
// of its own; and what is called after each epoch. A plain value, handed to run().
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "worker/data/dataset.h"
#include "worker/model/registry.h"
#include "worker/plan/job.h"
#include "worker/save/metrics_writer.h"
#include "worker/train/loss.h"

namespace ddp::worker {

/// Reads or draws a data set, the same on every rank. Errors: UsageError; rank 0 says it.
using DataSetFactory = std::function<DataSet(const DataRequest&)>;
using LossFactory = std::function<Criterion(const LossJob&)>;

struct EpochEvent {
  const EpochRecord& record;  // the same on every rank
  ImageModel& model;
  int rank = 0;
  int world_size = 1;
};
/// Called on every rank after each epoch, before its checkpoint. What it changes in the model must
/// be the same on every rank. Errors: an exception ends the rank, and so the job.
using EpochHook = std::function<void(const EpochEvent&)>;

struct Registry {
  std::map<std::string, ModelFactory> models;       // by model.name
  std::map<std::string, DataSetFactory> data_sets;  // by data.name
  std::map<std::string, LossFactory> losses;        // by loss.name
  std::vector<EpochHook> on_epoch;
};

/// What the job file's reference lists.
Registry built_in();

/// Errors: UsageError with every name of the job that the registry does not have.
void require_known(const Registry& registry, const Job& job);

}  // namespace ddp::worker
