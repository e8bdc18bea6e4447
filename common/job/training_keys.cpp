// The second half of the table: data, model, optimizer and training. One key, one entry.
#include "common/job/training_keys.h"

namespace ddp {
namespace {

constexpr double kMaxCounted = 1e9;

}  // namespace

// The facts of a key come first, then its help.
// clang-format off
std::vector<JobKey> training_keys() {
  using enum JobKeyType;
  return {
      {.path = "data.name", .type = choice, .default_value = "digits",
       .choices = {"digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "image-folder",
                   "coco", "synthetic"},
       .is_open = true, .help = "data set"},
      {.path = "data.root", .type = text, .default_value = "null", .may_differ = true,
       .is_path = true, .help = "directory that holds the data set's files"},
      {.path = "data.batch", .type = integer, .default_value = "null", .min = 1, .max = kMaxCounted,
       .help = "samples of one optimizer step of the whole job; exactly one of this and "
               "data.batch_per_rank is given"},
      {.path = "data.batch_per_rank", .type = integer, .default_value = "null",
       .min = 1, .max = kMaxCounted,
       .help = "samples of one micro-step of one rank; see data.batch"},
      {.path = "data.seed", .type = integer, .default_value = "1", .min = 0, .max = 4294967295.0,
       .help = "digits, synthetic: what the set is drawn from"},
      {.path = "data.train_size", .type = integer, .default_value = "null",
       .min = 1, .max = kMaxCounted,
       .help = "training samples: digits, synthetic: how many are drawn; files: the first N"},
      {.path = "data.test_size", .type = integer, .default_value = "null",
       .min = 1, .max = kMaxCounted, .help = "test samples, as data.train_size"},
      {.path = "data.image_size", .type = integer, .default_value = "224", .min = 1, .max = 16384,
       .help = "image-folder, coco, synthetic: side in pixels of the images that the model takes; "
               "others are fitted to it"},
      {.path = "data.background", .type = text, .default_value = "null",
       .help = "image-folder, coco: what is seen through transparent pixels: white, black or "
               "\"#rrggbb\"; null: their alpha is dropped, as torchvision's ImageFolder does"},
      {.path = "data.sampler", .type = choice, .default_value = "shuffle",
       .choices = {"shuffle", "sequential", "weighted", "class-balanced"},
       .help = "order of an epoch; the last two draw samples with replacement, by "
               "data.class_weights or so that all classes come as often"},
      {.path = "data.class_weights", .type = text_map, .default_value = "{}",
       .help = "weighted: how often samples of a class are drawn, by its name or number; 1 for "
               "those not named"},
      {.path = "data.limit", .type = integer, .default_value = "null", .min = 1, .max = kMaxCounted,
       .help = "training samples of so many whole batches, always the same ones: to see whether a "
               "model can learn them"},
      {.path = "data.repeats", .type = integer, .default_value = "1", .min = 1, .max = 1000,
       .help = "each sample is used so many times in a row, augmented again each time; an epoch "
               "keeps its number of samples, so it has fewer different ones"},
      {.path = "data.drop_last", .type = boolean, .default_value = "false",
       .help = "leave the last step of an epoch out where it has less than a whole batch"},
      {.path = "data.augment", .type = named_list, .default_value = "[]",
       .help = "what changes samples of the training set, in this order, as [{crop: {padding: 4}}, "
               "flip]: affine, center-crop, color-jitter, crop, cutmix, cutout, flip, "
               "flip-vertical, hsv, letterbox, mixup, mosaic, rand-augment, random-perspective, "
               "random-resized-crop, resize, rotate; also names that the program itself registers"},
      {.path = "data.max_bad", .type = real, .default_value = "0.01", .min = 0, .max = 1,
       .help = "share of the samples of an epoch that may be bad (damaged, empty, gone): they are "
               "replaced and listed; with more of them the run ends"},
      {.path = "data.cache", .type = bytes, .default_value = "0B", .min = 0, .max = 1e15,
       .may_differ = true,
       .help = "memory of each rank for decoded training samples of sets that are read from files, "
               "so that none of them is read twice; mosaic and mixup ask for each several times an "
               "epoch. Samples are the same with it and without it"},
      {.path = "data.resident", .type = choice, .default_value = "auto",
       .choices = {"auto", "true", "false"}, .may_differ = true,
       .help = "keep the images of sets that live in memory on the device as bytes, and make "
               "batches there; auto: on a GPU, where the augmentations can be made there and the "
               "set takes a tenth of the free memory at most, as each rank finds it for each set. "
               "Batches are the same with it and without it"},
      {.path = "data.cache_labels", .type = boolean, .default_value = "true", .may_differ = true,
       .help = "coco: keep the labels of a folder of 1,000 images or more in one file beside it "
               "(labels/train2017.ddp-labels), so that the next start opens only the label files "
               "that have changed. Labels are the same with it and without it"},
      {.path = "data.args", .type = text_map, .default_value = "{}", .is_path = true,
       .help = "arguments of coco (train, val, names), of synthetic (classes, channels), or of a "
               "data set that the program itself registers"},
      {.path = "data.workers", .type = integer, .default_value = "auto", .min = 0, .max = 1024,
       .choices = {"auto"}, .may_differ = true,
       .help = "threads of a rank that load batches ahead; 0: it loads each batch when it takes "
               "it; auto: 2, or 0 on a CPU for sets that live in memory"},

      {.path = "task.name", .type = choice, .default_value = "classification",
       .choices = {"classification", "detection"}, .is_open = true,
       .help = "what is learned, or a task that the program itself registers"},
      {.path = "task.args", .type = text_map, .default_value = "{}",
       .help = "arguments of detection (multi_scale: 0.5 trains each step at a size from half to "
               "one and a half times data.image_size), or of a task that the program itself "
               "registers"},

      {.path = "model.name", .type = choice, .default_value = "convnet",
       .choices = {"convnet", "linear", "lenet", "mlp", "resnet18", "resnet34", "resnet50",
                   "yolov5n", "yolov5s", "yolov5m", "yolov8n", "yolov8s", "yolov8m"},
       .is_open = true, .help = "network, or one that the program itself registers"},
      {.path = "model.script", .type = text, .default_value = "null", .is_path = true,
       .help = "instead of model.name: a model that Python has written with torch.jit.script or "
               "torch.jit.trace. It is code: take it from people you trust"},
      {.path = "model.export", .type = text, .default_value = "null", .is_path = true,
       .help = "instead of model.name: a model that Python has written with torch.export.save, of "
               "net.train() and for batches of any size (dynamic_shapes)"},
      {.path = "model.norm", .type = choice, .default_value = "batch", .choices = {"batch", "sync"},
       .help = "normalisation layers: batch: over the samples of a rank; sync: over those of all "
               "ranks, for models that have batch norms"},
      {.path = "model.weights", .type = text, .default_value = "null", .is_path = true,
       .help = "safetensors or .pt file to start from, or a checkpoint (as checkpoint.resume), or "
               "fetch:resnet34, weights that torchvision publishes"},
      {.path = "model.strict", .type = boolean, .default_value = "true",
       .help = "false: weights take what fits by name and shape, and list the rest"},
      {.path = "model.freeze", .type = text_list, .default_value = "[]",
       .help = "parameters that are not trained, as [\"layer1.*\", conv1.weight]"},
      {.path = "model.stem", .type = choice, .default_value = "auto",
       .choices = {"auto", "cifar", "imagenet"},
       .help = "first layers of a resnet; auto: cifar for images up to 64 pixels"},
      {.path = "model.memory_format", .type = choice, .default_value = "auto",
       .choices = {"auto", "channels_last", "contiguous"},
       .help = "layout of images and weights; auto: channels_last where it is faster"},
      {.path = "model.args", .type = text_map, .default_value = "{}",
       .help = "arguments of the model: mlp: {hidden: \"256,128\", dropout: 0}; yolo: {depth: "
               "0.33, width: 0.25}, factors on blocks and channels; from Python: {outputs: "
               "{main: 1, aux: 0.4}}, factors of its outputs in the loss"},

      {.path = "loss.name", .type = choice, .default_value = "cross-entropy",
       .choices = {"cross-entropy", "detection"}, .is_open = true,
       .help = "loss, or one that the program itself registers"},
      {.path = "loss.label_smoothing", .type = real, .default_value = "0", .min = 0, .max = 1,
       .help = "part of each label that is spread over all classes"},
      {.path = "loss.reduction", .type = choice, .default_value = "mean",
       .choices = {"mean", "sum"}, .help = "over the ranks: mean of their gradients, or sum"},
      {.path = "loss.args", .type = text_map, .default_value = "{}",
       .help = "arguments of the loss; detection: {box: 7.5, cls: 0.5, dfl: 1.5, top: 10, alpha: "
               "0.5, beta: 6, nominal_batch: 64, normalise: all}; normalise: rank divides by each "
               "rank's target scores, as packages in Python do"},

      {.path = "optimizer.name", .type = choice, .default_value = "sgd",
       .choices = {"sgd", "adam", "adamw"}, .is_open = true,
       .help = "optimizer, or one that the program itself registers"},
      {.path = "optimizer.lr", .type = real, .default_value = "0.05", .min = 0, .max = 1e6,
       .excludes_min = true, .help = "base learning rate"},
      {.path = "optimizer.momentum", .type = real, .default_value = "0.9", .min = 0, .max = 1,
       .help = "momentum of sgd"},
      {.path = "optimizer.nesterov", .type = boolean, .default_value = "false",
       .help = "Nesterov's form of momentum"},
      {.path = "optimizer.weight_decay", .type = real, .default_value = "1e-4",
       .min = 0, .max = 1e6, .help = "L2 penalty; adamw: decoupled from the gradient"},
      {.path = "optimizer.decay_norms_and_biases", .type = boolean, .default_value = "true",
       .help = "false: weight_decay leaves parameters of norm layers, and all biases, alone"},
      {.path = "optimizer.beta1", .type = real, .default_value = "0.9", .min = 0, .max = 0.999999,
       .help = "adam, adamw: decay of the mean of gradients"},
      {.path = "optimizer.beta2", .type = real, .default_value = "0.999",
       .min = 0, .max = 0.99999999, .help = "adam, adamw: decay of the mean of their squares"},
      {.path = "optimizer.eps", .type = real, .default_value = "1e-8", .min = 0, .max = 1,
       .excludes_min = true, .help = "adam, adamw: added to the divisor"},
      {.path = "optimizer.lr_factors", .type = text_map, .default_value = "{}",
       .help = "factors on the learning rate by parameter, as {\"layer1.*\": 0.1}; all that match "
               "multiply"},
      {.path = "optimizer.ema_decay", .type = real, .default_value = "null",
       .min = 0, .max = 0.9999999,
       .help = "keeps a mean of weights and running statistics, w_ema = decay * w_ema + (1 - "
               "decay) * w; it is evaluated"},
      {.path = "optimizer.ema_ramp", .type = real, .default_value = "0",
       .min = 0, .max = kMaxCounted,
       .help = "optimizer steps in which ema_decay grows: decay * (1 - exp(-updates / ema_ramp)); "
               "0: whole from the first"},
      {.path = "optimizer.scale_lr", .type = choice, .default_value = "none",
       .choices = {"none", "linear", "sqrt"},
       .help = "multiplies the learning rate by this function of the world size"},
      {.path = "optimizer.args", .type = text_map, .default_value = "{}",
       .help = "arguments of an optimizer that the program itself registers"},

      {.path = "schedule.name", .type = choice, .default_value = "cosine",
       .choices = {"constant", "step", "multistep", "cosine", "one-cycle", "polynomial", "plateau"},
       .help = "learning rate over the run"},
      {.path = "schedule.warmup", .type = real, .default_value = "1", .min = 0, .max = kMaxCounted,
       .help = "epochs of linear warm-up; one-cycle has its own"},
      {.path = "schedule.every", .type = integer, .default_value = "30",
       .min = 1, .max = kMaxCounted, .help = "step: epochs between drops"},
      {.path = "schedule.milestones", .type = integer_list, .default_value = "[]",
       .min = 1, .max = kMaxCounted, .help = "multistep: epochs of the drops"},
      {.path = "schedule.gamma", .type = real, .default_value = "0.1", .min = 0, .max = 1,
       .excludes_min = true, .help = "step, multistep: factor of a drop"},
      {.path = "schedule.power", .type = real, .default_value = "1", .min = 0, .max = 100,
       .excludes_min = true, .help = "polynomial: its power"},
      {.path = "schedule.factor", .type = real, .default_value = "0.1", .min = 0, .max = 1,
       .excludes_min = true, .help = "plateau: factor on the rate when the test loss stays"},
      {.path = "schedule.patience", .type = integer, .default_value = "10",
       .min = 0, .max = kMaxCounted,
       .help = "plateau: evaluations without gain before the rate drops"},
      {.path = "schedule.threshold", .type = real, .default_value = "1e-4", .min = 0, .max = 1,
       .help = "plateau: least gain that counts, relative to the best"},
      {.path = "schedule.min_lr", .type = real, .default_value = "0", .min = 0, .max = 1e6,
       .help = "plateau, cosine and polynomial: lowest rate"},
      {.path = "schedule.warmup_bias_lr", .type = real, .default_value = "null",
       .min = 0, .max = 1e6,
       .help = "where the rate of biases begins in the warm-up; null: as the others"},
      {.path = "schedule.warmup_momentum", .type = real, .default_value = "null",
       .min = 0, .max = 1,
       .help = "where the momentum of sgd begins in the warm-up; null: it is the same throughout"},

      {.path = "amp.level", .type = choice, .default_value = "O0",
       .choices = {"O0", "O1", "O2", "O3"},
       .help = "mixed precision: O0 none, O1 autocast, O2 low weights with fp32 masters, O3 all "
               "low"},
      {.path = "amp.dtype", .type = choice, .default_value = "bf16", .choices = {"bf16", "fp16"},
       .help = "type of the lower precision; not used at O0"},
      {.path = "amp.loss_scale", .type = text, .default_value = "dynamic",
       .help = "fp16: dynamic, or a number"},
      {.path = "amp.keep_batchnorm_fp32", .type = boolean, .default_value = "null",
       .help = "normalisation layers stay fp32 (on GPUs batch and instance norm alone); null: at "
               "all levels but O3"},

      {.path = "ddp.bucket", .type = bytes, .default_value = "25MiB", .min = 1024, .max = 1 << 30,
       .help = "size of a gradient bucket"},
      {.path = "ddp.join_timeout", .type = duration, .default_value = "2min", .may_differ = true,
       .help = "how long a rank waits for the others at the start"},
      {.path = "ddp.timeout", .type = duration, .default_value = "5min", .min = 1000,
       .may_differ = true,
       .help = "how long a rank waits for the others in a collective, before it names who is "
               "missing and ends by 124; longer than any rank's evaluation or checkpoint"},
      {.path = "ddp.broadcast_buffers", .type = choice, .default_value = "auto",
       .choices = {"auto", "true", "false"},
       .help = "rank 0's buffers to all: true: each step; auto: before evaluations and "
               "checkpoints, and each step if a model from Python computes with buffers that it "
               "changes; false: never"},
      {.path = "ddp.find_unused", .type = boolean, .default_value = "false",
       .help = "look for parameters without gradient each step"},
      {.path = "ddp.static_graph", .type = boolean, .default_value = "false",
       .help = "the graph is the same each step; not with train.accumulate above 1"},
      {.path = "ddp.hook", .type = choice, .default_value = "none",
       .choices = {"none", "fp16", "bf16"}, .help = "gradients travel in this type"},
      {.path = "ddp.check_replicas_every", .type = integer, .default_value = "500",
       .min = 0, .max = kMaxCounted,
       .help = "optimizer steps between comparisons of all ranks' weights, which are made before "
               "checkpoints, after hooks and at the end, too; 0: never"},

      {.path = "train.epochs", .type = integer, .default_value = "2", .min = 1, .max = kMaxCounted,
       .help = "epochs of the run"},
      {.path = "train.max_steps", .type = integer, .default_value = "null",
       .min = 1, .max = kMaxCounted,
       .help = "optimizer steps of the run, if they are done before train.epochs"},
      {.path = "train.time_limit", .type = duration, .default_value = "null",
       .help = "of the whole job, its restarts included, by the clock; then all ranks stop with a "
               "checkpoint as they do at SIGTERM (143), and the same command goes on; null: none"},
      {.path = "train.accumulate", .type = integer, .default_value = "1", .min = 1, .max = 1e6,
       .help = "micro-steps of one optimizer step"},
      {.path = "train.clip_norm", .type = real, .default_value = "null", .min = 0, .max = 1e38,
       .excludes_min = true, .help = "largest norm of the whole gradient"},
      {.path = "train.non_finite", .type = choice, .default_value = "stop",
       .choices = {"stop", "skip"},
       .help = "loss or gradient that is not finite: stop: the run ends with 96; skip: the step is "
               "left out, more than 40 in a row end the run"},
      {.path = "train.log_every", .type = integer, .default_value = "20",
       .min = 1, .max = kMaxCounted, .help = "optimizer steps between records"},
      {.path = "train.deterministic", .type = boolean, .default_value = "false",
       .help = "only algorithms that give the same bits each time"},
      {.path = "train.matmul_precision", .type = choice, .default_value = "highest",
       .choices = {"highest", "high", "medium"},
       .help = "of fp32 products, as torch.set_float32_matmul_precision"},
      {.path = "train.tf32", .type = boolean, .default_value = "false",
       .help = "TF32 in convolutions and matrix products of GPUs"},
      {.path = "train.cudnn_benchmark", .type = choice, .default_value = "auto",
       .choices = {"auto", "true", "false"},
       .help = "cuDNN tries its algorithms; auto: unless train.deterministic"},

      {.path = "eval.every", .type = integer, .default_value = "1", .min = 0, .max = kMaxCounted,
       .help = "epochs between evaluations; 0: only the last"},
      {.path = "eval.every_steps", .type = integer, .default_value = "null",
       .min = 1, .max = kMaxCounted,
       .help = "optimizer steps between evaluations inside an epoch; null: none there"},
      {.path = "eval.batch", .type = integer, .default_value = "auto", .min = 1, .max = kMaxCounted,
       .choices = {"auto"},
       .help = "samples that a rank evaluates at a time; fewer need less memory, and a stop waits "
               "for one batch; auto: 256 on a GPU, 32 on a CPU"},
      {.path = "eval.rectangular", .type = boolean, .default_value = "false",
       .help = "images with boxes are evaluated with as little border as the model takes: by their "
               "own shape, sides in multiples of 32, and not in a square"},
      {.path = "eval.metrics", .type = text_list, .default_value = "[]",
       .help = "further metrics of evaluations, beside the task's own: top-5, and names that the "
               "program itself registers"},
      {.path = "eval.watch.metric", .type = text, .default_value = "auto",
       .help = "number of an evaluation that decides which checkpoint is best, when to stop early "
               "and when a plateau drops the rate: loss, accuracy, ...; auto: accuracy, and the "
               "loss for a plateau"},
      {.path = "eval.watch.mode", .type = choice, .default_value = "auto",
       .choices = {"auto", "min", "max"},
       .help = "whether less or more of it is better; auto: less of a loss, more of all else"},
      {.path = "eval.patience", .type = integer, .default_value = "null",
       .min = 1, .max = kMaxCounted, .help = "evaluations without gain before all ranks stop"},

      {.path = "checkpoint.every", .type = integer, .default_value = "1",
       .min = 0, .max = kMaxCounted, .help = "epochs between checkpoints; 0: by time only"},
      {.path = "checkpoint.every_steps", .type = integer, .default_value = "null",
       .min = 1, .max = kMaxCounted,
       .help = "optimizer steps between checkpoints; null: by epochs and time only"},
      {.path = "checkpoint.interval", .type = duration, .default_value = "10min",
       .help = "longest time between checkpoints"},
      {.path = "checkpoint.keep", .type = integer, .default_value = "3",
       .min = 2, .max = kMaxCounted, .help = "checkpoints kept"},
      {.path = "checkpoint.resume", .type = text, .default_value = "auto", .is_path = true,
       .help = "auto, never, or what to start from: a checkpoint (its directory, a run's, or "
               "RUN/best or RUN/latest), or a .pt file that a Python script saved"},
      {.path = "checkpoint.allow", .type = text_list, .default_value = "[]",
       .help = "keys and sections that may differ from those of the checkpoint that "
               "checkpoint.resume names, as [optimizer.lr, schedule]; each difference is said"},
      {.path = "checkpoint.keys", .type = text_map, .default_value = "{}",
       .help = "what a Python script calls the entries of its checkpoint, as {epoch: start_epoch, "
               "model: net, optimizer: opt, scheduler: sched}; epoch, how many are done, may be a "
               "number"},
      {.path = "checkpoint.trust", .type = boolean, .default_value = "false", .may_differ = true,
       .help = "also load checkpoints and weights that belong to another user"},

      {.path = "metrics.tensorboard", .type = boolean, .default_value = "true", .may_differ = true,
       .help = "write TensorBoard events"},
      {.path = "metrics.csv", .type = boolean, .default_value = "true", .may_differ = true,
       .help = "write metrics.csv"},
      {.path = "metrics.jsonl", .type = boolean, .default_value = "true", .may_differ = true,
       .help = "write metrics.jsonl"},
      {.path = "metrics.command", .type = text_list, .default_value = "[]", .may_differ = true,
       .help = "program and arguments that rank 0 starts, which gets the lines of metrics.jsonl on "
               "its standard input, as [python3, deploy/tracking/mlflow_hook.py]"},
  };
}
// clang-format on

}  // namespace ddp
