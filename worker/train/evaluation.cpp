#include "worker/train/evaluation.h"

#include <torch/torch.h>

#include <optional>
#include <span>
#include <utility>

#include "common/error.h"
#include "worker/train/failure/lack_of_memory.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/run_pictures.h"
#include "worker/train/step/meters.h"

namespace ddp::worker {
namespace {

/// Advice for a lack of memory.
constexpr const char* kSmallerEvaluation =
    "This was in an evaluation: a smaller eval.batch takes less of it.";

}  // namespace

std::optional<NamedValues> Evaluation::run() try {
  const torch::NoGradGuard no_grad;
  const Ema* const ema = parts_.ema;
  parts_.replica.sync_buffers(ema != nullptr ? ema->buffer_averages() : std::vector<NamedTensor>{});
  await_stream(parts_.group, parts_.forward.device(), "the broadcast of the buffers");
  const EmaSwap averages(ema);
  Task& task = parts_.forward.task();
  task.model().eval();
  parts_.loader.start([left = std::span(parts_.batches)]() mutable -> std::optional<MicroBatch> {
    if (left.empty()) return {};
    const MicroBatch next{left.front()};
    left = left.subspan(1);
    return next;
  });
  const Metrics metrics = parts_.make_metrics();
  PassSums passes;
  RunPictures* pictures = parts_.pictures;  // null once the first batch is drawn
  for (std::size_t i = 0; i < parts_.batches.size(); ++i) {
    if (parts_.stop_requested) break;
    const Batch batch = parts_.loader.next();
    if (batch.size() == 0) continue;  // none of the batch's samples can be read
    const Pass pass = parts_.forward.run(batch, Forward::Mode::evaluation);
    passes.add(task, pass);
    for (const auto& metric : metrics)
      metric->update(pass.outputs, pass.batch);
    if (pictures != nullptr) std::exchange(pictures, nullptr)->show_evaluation(pass);
    touch(parts_.page);
  }
  task.model().train();
  at::Tensor stops = at::full({1}, parts_.stop_requested ? 1.0 : 0.0, at::kDouble);
  if (parts_.group.start_all_reduce(stops)->wait().item<double>() > 0) return {};
  passes.merge(parts_.group);
  const StepSums sums = passes.sums();
  NamedValues values{{"loss", sums.mean_loss()}};
  const auto add = [&values](const NamedValues& more) {
    values.insert(values.end(), more.begin(), more.end());
  };
  if (!parts_.has_task_metric) add(passes.names().count_means(sums));
  for (const auto& metric : metrics) {
    metric->merge(parts_.group);
    add(metric->values());
  }
  if (parts_.pictures != nullptr)
    parts_.pictures->show_metrics(metrics, parts_.page.step.load(std::memory_order_relaxed));
  for (const auto& [name, value] : passes.names().part_means(sums))
    values.emplace_back("loss/" + name, value);
  return values;
} catch (const c10::Error& error) {
  if (!is_lack_of_memory(error)) throw_as_user_code_error(error);
  throw SystemError(message_with_advice(error, kSmallerEvaluation));
}

}  // namespace ddp::worker
