#include "worker/train/evaluation_plan.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "common/error.h"
#include "worker/data/loading/rectangular_batches.h"
#include "worker/model/detector.h"
#include "worker/plan/shard.h"
#include "worker/train/registry.h"

namespace ddp::worker {
namespace {

/// Gathers the sizes of all samples on every rank; each rank reads only some of the files. All
/// ranks call it. Errors: PeerError.
std::vector<std::optional<ImageSize>> gather_sizes(const Source& source,
                                                   Group& group,
                                                   ProgressPage& page) {
  const std::vector<std::int64_t> mine =
      evaluation_shard(source.facts().count, group.world_size(), group.rank());
  const at::Tensor seen = at::zeros({std::ssize(mine), 3}, at::kLong);
  auto* row = seen.data_ptr<std::int64_t>();  // sample, height, width
  for (const std::int64_t sample : mine) {
    const ImageSize size = source.image_size(sample).value_or(ImageSize{});
    row = std::ranges::copy(std::array<std::int64_t, 3>{sample, size.height, size.width}, row).out;
    touch(page);
  }
  std::vector<std::optional<ImageSize>> sizes(static_cast<std::size_t>(source.facts().count));
  for (const at::Tensor& part : gather_rows(group, seen)) {
    const at::Tensor rows = part.contiguous();
    const auto* one = rows.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows.size(0); ++i, one += 3) {
      if (one[1] == 0) continue;
      sizes.at(static_cast<std::size_t>(one[0])) = {static_cast<int>(one[1]),
                                                    static_cast<int>(one[2])};
    }
  }
  return sizes;
}

}  // namespace

EvaluationPlan plan_evaluation(
    const Job& job, const Source& test, at::Device device, Group& group, ProgressPage& page) {
  const DataFacts& data = test.facts();
  const std::int64_t batch = job.evaluation.batch.value_or(device.is_cpu() ? 32 : 256);
  if (!job.evaluation.is_rectangular) {
    return {in_batches(evaluation_shard(data.count, group.world_size(), group.rank()), batch),
            make_augments({}, {}, data)};
  }
  if (!data.has_boxes || !data.has_varying_size) {
    throw UsageError("eval.rectangular: is for images with boxes in files of any size, and " +
                     data.name + " has none. Take data.name=coco, or remove the key.");
  }
  const std::vector<std::optional<ImageSize>> sizes = gather_sizes(test, group, page);
  if (std::ranges::none_of(sizes, [](const auto& size) { return size.has_value(); })) {
    throw UsageError("eval.rectangular: " + data.name +
                     " does not tell the size of any image. Remove the key.");
  }
  const RectangularBatches rectangles(
      sizes, static_cast<int>(data.shape.at(1)), static_cast<int>(Detector::kStrides.back()));
  return {rectangles.batches(group.world_size(), group.rank(), batch), {rectangles.letterbox()}};
}

}  // namespace ddp::worker
