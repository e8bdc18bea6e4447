// Shows what the Torch-free half of the worker does to the Python programs beside it: one verb,
// then its arguments. What goes wrong is explained as in the real programs.
#include <array>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/interop/verbs.h"
#include "worker/data/sets/digits.h"
#include "worker/plan/schedule.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/save/format/safetensors.h"
#include "worker/save/format/torch_file.h"
#include "worker/save/records/metrics_writer.h"

namespace ddp::worker {
namespace {

using test::Arguments;

void put(std::span<const std::uint8_t> bytes) {
  std::cout.write(std::string(bytes.begin(), bytes.end()).data(), std::ssize(bytes));
}

// digits SEED train|test COUNT: labels, then pixels, as raw bytes.
void draw(const Arguments& arguments) {
  const DigitsSplit split = arguments.at(1) == "train" ? DigitsSplit::train : DigitsSplit::test;
  const ImageSet set =
      draw_digits(std::stoull(arguments.at(0)), split, std::stoll(arguments.at(2)));
  put(set.labels);
  put(set.pixels);
}

// schedule NAME STEPS WARMUP: the rate of every step at a base rate of 0.1, one per line.
void print_rates(const Arguments& arguments) {
  const Schedule schedule{.kind = parse_schedule_name(arguments.at(0)).value(),
                          .base_lr = 0.1,
                          .steps = std::stoll(arguments.at(1)),
                          .warmup = std::stoll(arguments.at(2)),
                          .gamma = 0.3,
                          .step_size = 7,
                          .milestones = {5, 11, 12},
                          .power = 1.5,
                          // PolynomialLR ends at 0.
                          .min_lr = arguments.at(0) == "polynomial" ? 0 : 0.01};
  for (std::int64_t step = 0; step < schedule.steps; ++step)
    std::printf("%.17g\n", learning_rate(schedule, step));
}

/// Tensors of every dtype, that Python makes too (tests/interop/safetensors_test.py).
struct SampleTensors {
  std::array<double, 2> f64{1.0 / 3, -0.0};
  std::array<float, 6> f32{0, 1, 2, 3, 4, std::numeric_limits<float>::infinity()};
  std::array<std::uint16_t, 2> half{0x3C00, 0xC000};  // 1 and -2
  std::array<std::uint16_t, 2> bf16{0x3F80, 0xC000};  // 1 and -2
  std::array<std::int64_t, 1> i64{std::numeric_limits<std::int64_t>::min()};
  std::array<std::int32_t, 2> i32{-1, 1};
  std::array<std::int16_t, 3> i16{-1, 0, 1};
  std::array<std::int8_t, 3> i8{-128, 0, 127};
  std::array<std::uint8_t, 5> u8{0, 1, 2, 254, 255};
  std::array<std::uint8_t, 3> boolean{1, 0, 1};

  [[nodiscard]] std::vector<TensorView> views() const {
    return {{"bool", "BOOL", {3}, std::as_bytes(std::span(boolean))},
            {"u8", "U8", {5, 1}, std::as_bytes(std::span(u8))},
            {"i8", "I8", {3}, std::as_bytes(std::span(i8))},
            {"i16", "I16", {3}, std::as_bytes(std::span(i16))},
            {"i32", "I32", {2}, std::as_bytes(std::span(i32))},
            {"i64", "I64", {}, std::as_bytes(std::span(i64))},
            {"bf16", "BF16", {2}, std::as_bytes(std::span(bf16))},
            {"f16", "F16", {2}, std::as_bytes(std::span(half))},
            {"f32", "F32", {2, 3}, std::as_bytes(std::span(f32))},
            {"f64", "F64", {1, 2}, std::as_bytes(std::span(f64))},
            {"empty", "F32", {0, 3}, {}}};
  }
};

// write-safetensors PATH
void write_tensors(const Arguments& arguments) {
  const SampleTensors sample;
  write_safetensors(arguments.at(0), sample.views(), {{"format", "pt"}, {"note", "\"ü\""}});
}

// write-torch PATH
void write_torch(const Arguments& arguments) {
  const SampleTensors sample;
  write_torch_file(OutputFile(arguments.at(0), OutputFile::Mode::create), sample.views());
}

// read-tensors PATH: name, dtype, sizes, strides if it has any, and bytes of each tensor, as text.
void print_tensors(const Arguments& arguments) {
  const TensorFile file = read_tensor_file(arguments.at(0));
  for (const auto& [key, text] : file.metadata())
    std::cout << "metadata " << key << " " << text << "\n";
  for (const TensorView& tensor : file.tensors()) {
    std::cout << tensor.name << " " << tensor.dtype;
    for (const std::int64_t size : tensor.shape)
      std::cout << " " << size;
    for (const std::int64_t stride : tensor.strides)
      std::cout << " /" << stride;
    std::cout << " : " << std::hex << std::setfill('0');
    for (const std::byte byte : tensor.bytes)
      std::cout << std::setw(2) << std::to_integer<unsigned>(byte);
    std::cout << std::dec << "\n";
  }
}

// checkpoint RUN_DIRECTORY STEP
void save_checkpoint(const Arguments& arguments) {
  const SampleTensors sample;
  const OwnedDir run = OwnedDir::require(arguments.at(0));
  Checkpoints checkpoints(run, 3, "interop");
  checkpoints.save({.head = {.step = std::stoll(arguments.at(1)),
                             .world_size = 2,
                             .batch = 128,
                             .job = {{"model.name", "convnet"}},
                             .best = 1.0 / 3,
                             .torch_version = "2.11.0"},
                    .model = sample.views(),
                    .optimizer = {},
                    .state = {}});
}

// metrics DIRECTORY RESUMED_STEP LAST_STEP: records of the steps between, an epoch each 10 steps.
void write_metrics(const Arguments& arguments) {
  const std::int64_t resumed = std::stoll(arguments.at(1));
  const OwnedDir directory = OwnedDir::require(arguments.at(0));
  MetricsWriter writer(
      {.directory = directory,
       .resumed_step = resumed,
       .job_text = "name: a\n",
       .hyperparameters = {{"a.lr", "0.1"}, {"a.name", "sgd"}, {"a.nesterov", "true"}}});
  for (std::int64_t step = resumed + 1; step <= std::stoll(arguments.at(2)); ++step) {
    const std::int64_t epoch = (step - 1) / 10;
    const double loss = 1 / static_cast<double>(step + resumed);
    writer.write(StepRecord{
        .epoch = epoch, .step = step, .loss = loss, .lr = 0.1 * loss, .images_per_s = 1000});
    if (step % 10 != 0) continue;
    writer.write(EpochRecord{.epoch = epoch,
                             .step = step,
                             .train = {{"loss", loss}, {"accuracy", 1 - loss}},
                             .test = {{"loss", loss / 2}, {"accuracy", 1 - loss / 2}},
                             .images_per_s = 900,
                             .seconds = 2.5});
  }
}

}  // namespace

int run(int argc, char** argv) {
  return test::run_verb("files_tool",
                        {{"digits", draw},
                         {"schedule", print_rates},
                         {"write-safetensors", write_tensors},
                         {"write-torch", write_torch},
                         {"read-tensors", print_tensors},
                         {"checkpoint", save_checkpoint},
                         {"metrics", write_metrics}},
                        argc,
                        argv);
}

}  // namespace ddp::worker

int main(int argc, char** argv) {
  return ddp::worker::run(argc, argv);
}
