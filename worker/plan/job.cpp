#include "worker/plan/job.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string_view>

#include "common/job/job_keys.h"
#include "common/job/job_text.h"
#include "common/text/color.h"

namespace ddp::worker {
namespace {

// Converts a choice to an enum; `words` are in the order of its values. The job was checked before,
// so the word is known.
template <typename Enum>
Enum choose(const JobValues& values,
            std::string_view path,
            std::span<const std::string_view> words) {
  const auto found = std::find(words.begin(), words.end(), values.text(path));
  if (found == words.end()) throw std::logic_error("unknown word of " + std::string(path));
  return static_cast<Enum>(found - words.begin());
}

DeviceJob make_device(const JobValues& values) {
  DeviceJob device;
  device.device = values.text("device");
  device.backend = values.text("backend");
  device.min_free = values.integer("device_min_free");
  device.is_data_parallel = values.text("parallel") == "data";
  device.devices = values.texts("devices");
  device.output_device = values.maybe_text("output_device").value_or("");
  return device;
}

Args make_args(const JobValues& values, const char* path) {
  const JobValues::Setting& setting = values.setting(path);
  const bool is_given = setting.origin != "default";
  return {path, values.text_map(path), setting.origins, is_given ? setting.origin : ""};
}

MathJob make_math(const JobValues& values) {
  MathJob math;
  math.matmul_precision = values.text("train.matmul_precision");
  math.tf32 = values.flag("train.tf32");
  math.deterministic = values.flag("train.deterministic");
  const std::string& benchmark = values.text("train.cudnn_benchmark");
  math.cudnn_benchmark = benchmark == "auto" ? !math.deterministic : benchmark == "true";
  return math;
}

ModelJob make_model(const JobValues& values) {
  constexpr std::string_view kLayouts[] = {"auto", "channels_last", "contiguous"};
  ModelJob model;
  model.name = values.text("model.name");
  model.python_file = values.maybe_text("model.script");
  if (const auto exported = values.maybe_text("model.export")) {
    model.python_file = *exported;
    model.is_exported = true;
  }
  if (model.python_file) model.name = model.python_file->filename();
  model.has_sync_norm = values.text("model.norm") == "sync";
  model.weights = values.maybe_text("model.weights");
  model.strict = values.flag("model.strict");
  model.freeze = values.texts("model.freeze");
  model.stem = values.text("model.stem");
  model.layout = choose<ModelJob::Layout>(values, "model.memory_format", kLayouts);
  model.args = make_args(values, "model.args");
  return model;
}

LossJob make_loss(const JobValues& values) {
  constexpr std::string_view kReductions[] = {"mean", "sum"};
  LossJob loss;
  loss.name = values.text("loss.name");
  loss.label_smoothing = values.real("loss.label_smoothing");
  loss.reduction = choose<LossJob::Reduction>(values, "loss.reduction", kReductions);
  loss.args = make_args(values, "loss.args");
  return loss;
}

OptimizerJob make_optimizer(const JobValues& values, int world_size) {
  OptimizerJob optimizer;
  const std::string& name = values.text("optimizer.name");
  optimizer.name = name == "sgd"     ? OptimizerJob::Name::sgd
                   : name == "adam"  ? OptimizerJob::Name::adam
                   : name == "adamw" ? OptimizerJob::Name::adamw
                                     : OptimizerJob::Name::registered;
  optimizer.name_in_job = name;
  optimizer.args = make_args(values, "optimizer.args");
  optimizer.lr = scaled_lr(values, world_size);
  optimizer.momentum = values.real("optimizer.momentum");
  optimizer.nesterov = values.flag("optimizer.nesterov");
  optimizer.weight_decay = values.real("optimizer.weight_decay");
  optimizer.decay_norms_and_biases = values.flag("optimizer.decay_norms_and_biases");
  optimizer.warms_up_biases = values.maybe_real("schedule.warmup_bias_lr").has_value();
  optimizer.beta1 = values.real("optimizer.beta1");
  optimizer.beta2 = values.real("optimizer.beta2");
  optimizer.eps = values.real("optimizer.eps");
  for (const auto& [pattern, factor] : values.text_map("optimizer.lr_factors"))
    optimizer.lr_factors.emplace_back(pattern, std::stod(factor));
  optimizer.clip_norm = values.maybe_real("train.clip_norm");
  optimizer.ema_decay = values.maybe_real("optimizer.ema_decay");
  optimizer.ema_ramp = values.real("optimizer.ema_ramp");
  optimizer.skips_non_finite = values.text("train.non_finite") == "skip";
  return optimizer;
}

AmpJob make_amp(const JobValues& values) {
  constexpr std::string_view kTypes[] = {"bf16", "fp16"};
  AmpJob amp;
  amp.level = values.text("amp.level").back() - '0';
  amp.type = choose<AmpJob::Type>(values, "amp.dtype", kTypes);
  if (values.text("amp.loss_scale") != "dynamic")
    amp.loss_scale = std::stod(values.text("amp.loss_scale"));
  amp.keep_batchnorm_fp32 = values.maybe_flag("amp.keep_batchnorm_fp32");
  return amp;
}

DdpJob make_ddp(const JobValues& values) {
  constexpr std::string_view kHooks[] = {"none", "fp16", "bf16"};
  constexpr std::string_view kSyncs[] = {"auto", "true", "false"};
  DdpJob ddp;
  ddp.bucket_bytes = values.integer("ddp.bucket");
  ddp.find_unused = values.flag("ddp.find_unused");
  ddp.static_graph = values.flag("ddp.static_graph");
  ddp.hook = choose<CommHook>(values, "ddp.hook", kHooks);
  ddp.buffer_sync = choose<BufferSync>(values, "ddp.broadcast_buffers", kSyncs);
  ddp.check_replicas_every = values.integer("ddp.check_replicas_every");
  ddp.join_timeout = values.duration("ddp.join_timeout");
  ddp.timeout = values.duration("ddp.timeout");
  return ddp;
}

ScheduleJob make_schedule(const JobValues& values) {
  ScheduleJob schedule;
  schedule.name = values.text("schedule.name");
  schedule.warmup = values.real("schedule.warmup");
  schedule.every = values.integer("schedule.every");
  schedule.milestones = values.integers("schedule.milestones");
  schedule.gamma = values.real("schedule.gamma");
  schedule.power = values.real("schedule.power");
  schedule.factor = values.real("schedule.factor");
  schedule.patience = values.integer("schedule.patience");
  schedule.threshold = values.real("schedule.threshold");
  schedule.min_lr = values.real("schedule.min_lr");
  schedule.warmup_bias_lr = values.maybe_real("schedule.warmup_bias_lr");
  schedule.warmup_momentum = values.maybe_real("schedule.warmup_momentum");
  return schedule;
}

EvaluationJob make_evaluation(const JobValues& values) {
  constexpr std::string_view kModes[] = {"auto", "min", "max"};
  EvaluationJob evaluation;
  evaluation.every = values.integer("eval.every");
  evaluation.every_steps = values.maybe_integer("eval.every_steps").value_or(0);
  const JobValue& batch = values.setting("eval.batch").value;
  if (const auto* const samples = std::get_if<std::int64_t>(&batch)) evaluation.batch = *samples;
  evaluation.is_rectangular = values.flag("eval.rectangular");
  evaluation.metrics = values.texts("eval.metrics");
  evaluation.metric = values.text("eval.watch.metric");
  evaluation.mode = choose<EvaluationJob::Mode>(values, "eval.watch.mode", kModes);
  evaluation.patience = values.maybe_integer("eval.patience");
  return evaluation;
}

CheckpointJob make_checkpoint(const JobValues& values) {
  CheckpointJob checkpoint;
  checkpoint.every = values.integer("checkpoint.every");
  checkpoint.every_steps = values.maybe_integer("checkpoint.every_steps").value_or(0);
  checkpoint.interval = values.duration("checkpoint.interval");
  checkpoint.keep = static_cast<int>(values.integer("checkpoint.keep"));
  checkpoint.resume = values.text("checkpoint.resume");
  checkpoint.allow = values.texts("checkpoint.allow");
  checkpoint.keys = values.text_map("checkpoint.keys");
  checkpoint.trust = values.flag("checkpoint.trust");
  return checkpoint;
}

std::vector<AugmentJob> make_augment(const JobValues& values) {
  const JobValues::Setting& setting = values.setting("data.augment");
  const std::vector<NamedEntry>& entries = values.named_list("data.augment");
  std::vector<AugmentJob> augment;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string place = std::to_string(i);
    TextMap origins;
    for (const auto& [name, text] : entries[i].args) {
      const auto origin = setting.origins.find(place + "." + name);
      if (origin != setting.origins.end()) origins[name] = origin->second;
    }
    augment.push_back({entries[i].name,
                       Args("data.augment[" + place + "]." + entries[i].name,
                            entries[i].args,
                            std::move(origins),
                            setting.origin)});
  }
  return augment;
}

DataJob make_data(const JobValues& values) {
  DataJob data;
  data.name = values.text("data.name");
  data.root = values.maybe_text("data.root").value_or("");
  data.seed = static_cast<std::uint64_t>(values.integer("data.seed"));
  data.train_size = values.maybe_integer("data.train_size");
  data.test_size = values.maybe_integer("data.test_size");
  data.image_size = static_cast<int>(values.integer("data.image_size"));
  if (const auto color = values.maybe_text("data.background"))
    data.background = parse_color(*color);
  const JobValue& workers = values.setting("data.workers").value;
  if (const auto* const threads = std::get_if<std::int64_t>(&workers))
    data.threads = static_cast<int>(*threads);
  data.augment = make_augment(values);
  constexpr std::string_view kSamplers[] = {"shuffle", "sequential", "weighted", "class-balanced"};
  data.sampler = choose<Sampler>(values, "data.sampler", kSamplers);
  const Args weights = make_args(values, "data.class_weights");
  for (const auto& [name, text] : values.text_map("data.class_weights"))
    data.class_weights[name] = weights.real(name, 0, kAnyReal);
  data.limit = values.maybe_integer("data.limit");
  data.repeats = values.integer("data.repeats");
  data.drop_last = values.flag("data.drop_last");
  data.max_bad = values.real("data.max_bad");
  data.cache = values.integer("data.cache");
  constexpr std::string_view kResidents[] = {"auto", "true", "false"};
  data.resident = choose<DataJob::Resident>(values, "data.resident", kResidents);
  data.cache_labels = values.flag("data.cache_labels");
  data.args = make_args(values, "data.args");
  return data;
}

}  // namespace

// Linear: Goyal et al., arXiv:1706.02677; square root: Krizhevsky, arXiv:1404.5997.
double scaled_lr(const JobValues& values, int world_size) {
  const double lr = values.real("optimizer.lr");
  const std::string& rule = values.text("optimizer.scale_lr");
  if (rule == "linear") return lr * world_size;
  if (rule == "sqrt") return lr * std::sqrt(static_cast<double>(world_size));
  return lr;
}

Job make_job(const JobValues& values, int world_size) {
  Job job;
  job.name = values.text("name");
  job.seed = static_cast<std::uint64_t>(values.integer("seed"));
  job.batch = plan_batch(values, world_size);
  job.first_world_size = world_size;
  job.data = make_data(values);
  job.device = make_device(values);
  job.math = make_math(values);
  job.task = {values.text("task.name"), make_args(values, "task.args")};
  job.model = make_model(values);
  job.loss = make_loss(values);
  job.optimizer = make_optimizer(values, world_size);
  job.schedule = make_schedule(values);
  job.amp = make_amp(values);
  job.ddp = make_ddp(values);
  job.epochs = values.integer("train.epochs");
  job.log_every = values.integer("train.log_every");
  job.max_steps = values.maybe_integer("train.max_steps");
  job.evaluation = make_evaluation(values);
  job.checkpoint = make_checkpoint(values);
  job.tensorboard = values.flag("metrics.tensorboard");
  job.csv = values.flag("metrics.csv");
  job.jsonl = values.flag("metrics.jsonl");
  job.identity = job_identity(values, true);
  return job;
}

}  // namespace ddp::worker
