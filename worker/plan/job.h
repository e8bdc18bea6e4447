// The job in the form that a training uses: one plain struct, made once from the checked values. No
// later code sees YAML. A ...Job is the section of that name of the job file: DataJob is `data`.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/job/batch_plan.h"
#include "common/job/job_values.h"
#include "worker/plan/args.h"

namespace ddp::worker {

/// One entry of data.augment.
struct AugmentJob {
  std::string name;
  Args args;
};

enum class Sampler { shuffle, sequential, weighted, class_balanced };

struct DataJob {
  /// Whether image sets lie on the device: where that helps, always, or never.
  enum class Resident { automatic, always, never };

  std::string name;
  std::filesystem::path root;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> train_size;
  std::optional<std::int64_t> test_size;
  int image_size = 224;                                   // for sets whose images vary in size
  std::optional<std::array<std::uint8_t, 3>> background;  // red, green, blue
  std::optional<int> threads;       // of each rank's loader; no value: as fits the data
  std::vector<AugmentJob> augment;  // of the training set, in order
  Sampler sampler = Sampler::shuffle;
  std::map<std::string, double> class_weights;  // by name or number
  std::optional<std::int64_t> limit;            // batches
  std::int64_t repeats = 1;
  bool drop_last = false;
  double max_bad = 0.01;   // share of an epoch's samples
  std::int64_t cache = 0;  // bytes of decoded samples
  Resident resident = Resident::automatic;
  bool cache_labels = true;
  Args args;
};

struct DeviceJob {
  std::string device = "auto";        // auto | cpu | cuda | cuda:N
  std::string backend = "auto";       // auto | nccl | gloo | shm
  std::int64_t min_free = 512 << 20;  // bytes
  bool is_data_parallel = false;      // parallel: data
  std::vector<std::string> devices;   // of parallel: data; empty: all
  std::string output_device;          // empty: the first of them
};

/// How matrix products and convolutions are computed.
struct MathJob {
  std::string matmul_precision = "highest";
  bool tf32 = false;
  bool cudnn_benchmark = true;
  bool deterministic = false;
};

struct TaskJob {
  std::string name = "classification";
  Args args;
};

struct ModelJob {
  enum class Layout { automatic, channels_last, contiguous };

  std::string name;  // with a file from Python: the file's
  std::optional<std::filesystem::path> python_file;
  bool is_exported = false;  // that file: by torch.export, not TorchScript
  bool has_sync_norm = false;
  std::optional<std::filesystem::path> weights;
  bool strict = true;
  std::vector<std::string> freeze;  // patterns of parameter names
  std::string stem = "auto";        // auto | cifar | imagenet
  Layout layout = Layout::automatic;
  Args args;
};

struct LossJob {
  enum class Reduction { mean, sum };

  std::string name = "cross-entropy";
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;  // over the ranks
  Args args{};                            // for a loss of a program's own
};

struct OptimizerJob {
  enum class Name { sgd, adam, adamw, registered };

  Name name = Name::sgd;
  std::string name_in_job = "sgd";  // registered: by the program
  double lr = 0.05;                 // already scaled by the world size
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 1e-4;
  bool decay_norms_and_biases = true;
  bool warms_up_biases = false;  // schedule.warmup_bias_lr
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  // A pattern of parameter names, and a factor on the rate; the factors of all matching patterns
  // multiply.
  std::vector<std::pair<std::string, double>> lr_factors;
  std::optional<double> clip_norm;
  std::optional<double> ema_decay;
  double ema_ramp = 0;            // optimizer steps; 0: none
  bool skips_non_finite = false;  // train.non_finite
  Args args{};                    // for an optimizer of a program's own
};

struct AmpJob {
  enum class Type { bf16, fp16 };

  int level = 0;  // O0 to O3
  Type type = Type::bf16;
  std::optional<double> loss_scale;  // nothing: dynamic
  std::optional<bool> keep_batchnorm_fp32;
};

enum class CommHook { none, fp16, bf16 };
/// When rank 0's buffers are copied to all ranks: before evaluations and checkpoints, each step, or
/// never.
enum class BufferSync { automatic, each_step, never };

struct DdpJob {
  std::int64_t bucket_bytes = 25 << 20;
  bool find_unused = false;
  bool static_graph = false;
  CommHook hook = CommHook::none;
  BufferSync buffer_sync = BufferSync::automatic;
  std::int64_t check_replicas_every = 500;  // optimizer steps; 0: never
  std::chrono::milliseconds join_timeout{std::chrono::minutes(2)};
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};  // of a collective
};

struct ScheduleJob {
  std::string name = "cosine";
  double warmup = 1;                     // epochs
  std::int64_t every = 30;               // epochs
  std::vector<std::int64_t> milestones;  // epochs
  double gamma = 0.1;
  double power = 1;
  double factor = 0.1;         // plateau
  std::int64_t patience = 10;  // plateau: evaluations
  double threshold = 1e-4;     // plateau: relative
  double min_lr = 0;           // plateau, cosine and polynomial
  std::optional<double> warmup_bias_lr;
  std::optional<double> warmup_momentum;
};

struct EvaluationJob {
  enum class Mode { automatic, min, max };

  std::int64_t every = 1;               // epochs; 0: after the last
  std::int64_t every_steps = 0;         // optimizer steps, in the middle of epochs; 0: never
  std::optional<std::int64_t> batch{};  // samples of a rank at a time; nothing: as fits the device
  bool is_rectangular = false;          // images keep their shape, and are batched by it
  std::vector<std::string> metrics{};   // beside the task's own
  std::string metric = "auto";          // the value that decides what is best; auto: the task's own
  Mode mode = Mode::automatic;
  std::optional<std::int64_t> patience{};  // evaluations without gain before all ranks stop
};

struct CheckpointJob {
  std::int64_t every = 1;        // epochs; 0: by time only
  std::int64_t every_steps = 0;  // optimizer steps; 0: never
  std::chrono::milliseconds interval{0};
  int keep = 3;
  std::string resume = "auto";
  std::vector<std::string> allow{};  // keys and sections that may differ from the checkpoint's
  TextMap keys{};  // of a Python checkpoint: epoch, model, optimizer, scheduler to its own names
  bool trust = false;  // checkpoints and weights of other users
};

struct Job {
  std::string name;
  std::uint64_t seed = 1;
  BatchPlan batch;
  int first_world_size = 1;  // of the run's first round
  DataJob data;
  DeviceJob device;
  MathJob math;
  TaskJob task;
  ModelJob model;
  LossJob loss;
  OptimizerJob optimizer;
  ScheduleJob schedule;
  AmpJob amp;
  DdpJob ddp;
  std::int64_t epochs = 2;
  std::int64_t log_every = 20;              // optimizer steps
  std::optional<std::int64_t> max_steps{};  // optimizer steps, if they end first
  EvaluationJob evaluation;
  CheckpointJob checkpoint;
  bool tensorboard = true;
  bool csv = true;
  bool jsonl = true;
  TextMap identity;  // what makes a resumed run the same job
};

/// optimizer.lr, scaled by the rule of optimizer.scale_lr.
double scaled_lr(const JobValues& values, int world_size);

/// The job of a run's first round. Errors: UsageError when the batch does not divide.
Job make_job(const JobValues& values, int world_size);

}  // namespace ddp::worker
