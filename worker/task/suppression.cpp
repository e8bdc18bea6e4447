#include "worker/task/suppression.h"

#include <ATen/core/grad_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "common/error.h"
#include "worker/data/sample.h"
#include "worker/image/box.h"
#include "worker/model/named_tensor.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kDetectionRow = 6;

/// `place` is box * classes + class.
struct Candidate {
  float score = 0;
  std::int64_t place = 0;
};

bool is_better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.place < b.place;
}

void require_shapes(const at::Tensor& boxes, const at::Tensor& scores) {
  if (boxes.dim() == 3 && scores.dim() == 3 && boxes.size(2) == 4 && scores.size(2) > 0 &&
      boxes.size(0) == scores.size(0) && boxes.size(1) == scores.size(1))
    return;
  throw UsageError("detections: boxes are " + shape_text(boxes) + " and scores " +
                   shape_text(scores) +
                   ". Give boxes of [images, boxes, 4] and scores of [images, boxes, classes].");
}

/// Candidates of all images of a batch, on the host, in the order of places.
struct Chosen {
  at::Tensor places;  // [n] of int64: (image * boxes + box) * classes + class
  at::Tensor values;  // [n] of float32
};

/// Shapes: `scores` [B, A, classes]. A comparison with NaN is false, so a NaN is never above the
/// confidence.
Chosen choose(const at::Tensor& scores, const SuppressionOptions& options) {
  at::Tensor places;
  at::Tensor values;
  if (options.is_multi_label) {
    const at::Tensor flat = scores.flatten();
    places = flat.gt(options.confidence).nonzero().squeeze(1);
    values = flat.index_select(0, places);
  } else {
    // max() would take a NaN for the largest score.
    const at::Tensor numbers =
        scores.masked_fill(scores.isnan(), -std::numeric_limits<float>::infinity());
    const auto [best, label] = numbers.flatten(0, 1).max(1);
    const at::Tensor above = best.gt(options.confidence).nonzero().squeeze(1);
    places = above * scores.size(2) + label.index_select(0, above);
    values = best.index_select(0, above);
  }
  return {places.cpu(), values.cpu()};
}

/// The candidates of one image, whose places are [first, first + count).
std::vector<Candidate> candidates_of(const Chosen& chosen, std::int64_t first, std::int64_t count) {
  const std::int64_t* const place = chosen.places.const_data_ptr<std::int64_t>();
  const std::int64_t* const end = place + chosen.places.numel();
  const float* const value = chosen.values.const_data_ptr<float>();
  std::vector<Candidate> candidates;
  for (auto at = std::lower_bound(place, end, first); at != end && *at < first + count; ++at)
    candidates.push_back({value[at - place], *at - first});
  return candidates;
}

void keep_best_first(std::vector<Candidate>& candidates, std::int64_t most) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
  if (candidates.size() > size) {
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(size);
    std::nth_element(candidates.begin(), end, candidates.end(), is_better);
    candidates.resize(size);
  }
  std::sort(candidates.begin(), candidates.end(), is_better);
}

struct KeptBox {
  Box box{};
  float area = 0;
};

/// The same arithmetic as torchvision's nms, to the bit: a box of negative width has a negative
/// area.
KeptBox with_area(const Box& box) {
  return {box, (box.right - box.left) * (box.bottom - box.top)};
}

float overlap(const KeptBox& a, const KeptBox& b) {
  const float width = std::min(a.box.right, b.box.right) - std::max(a.box.left, b.box.left);
  const float height = std::min(a.box.bottom, b.box.bottom) - std::max(a.box.top, b.box.top);
  const float shared = std::max(width, 0.0F) * std::max(height, 0.0F);
  return shared / (a.area + b.area - shared);
}

bool has_finite_sides(const Box& box) {
  return std::isfinite(box.left) && std::isfinite(box.top) && std::isfinite(box.right) &&
         std::isfinite(box.bottom);
}

/// Suppresses the boxes of one image. Shapes: `boxes` [A, 4] on the host; returns [n, 6].
at::Tensor suppress_one(const at::Tensor& boxes,
                        std::vector<Candidate> candidates,
                        std::int64_t classes,
                        const SuppressionOptions& options) {
  keep_best_first(candidates, options.max_candidates);
  std::vector<std::vector<KeptBox>> kept(
      static_cast<std::size_t>(options.is_class_agnostic ? 1 : classes));
  std::vector<float> rows;
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.max_kept, 0));
  for (const Candidate& one : candidates) {
    if (rows.size() >= most * kDetectionRow) break;
    const float* const side = boxes.const_data_ptr<float>() + one.place / classes * 4;
    const std::int64_t label = one.place % classes;
    const KeptBox mine = with_area({side[0], side[1], side[2], side[3]});
    if (!has_finite_sides(mine.box)) continue;
    auto& surer = kept[static_cast<std::size_t>(options.is_class_agnostic ? 0 : label)];
    if (std::ranges::any_of(
            surer, [&](const KeptBox& other) { return overlap(other, mine) > options.iou; }))
      continue;
    surer.push_back(mine);
    rows.insert(rows.end(), side, side + 4);
    rows.push_back(one.score);
    rows.push_back(static_cast<float>(label));
  }
  const auto found = static_cast<std::int64_t>(rows.size()) / kDetectionRow;
  return at::tensor(rows, at::kFloat).reshape({found, kDetectionRow});
}

}  // namespace

SuppressionOptions evaluation_suppression() {
  SuppressionOptions options;
  options.confidence = 0.001;
  options.is_multi_label = true;
  return options;
}

Suppressed suppress(const at::Tensor& boxes,
                    const at::Tensor& scores,
                    const SuppressionOptions& options) {
  const at::NoGradGuard no_grad;
  const Clock::time_point began = Clock::now();
  require_shapes(boxes, scores);
  const std::int64_t classes = scores.size(2);
  const std::int64_t pairs = scores.size(1) * classes;  // pairs of box and class in an image
  const Chosen chosen = choose(scores.to(at::kFloat), options);
  const at::Tensor host = boxes.to(at::kFloat).cpu().contiguous();
  Suppressed result;
  for (std::int64_t i = 0; i < boxes.size(0); ++i) {
    if (options.time_limit && Clock::now() - began >= *options.time_limit) {
      ++result.unfinished;
      result.detections.push_back(at::empty({0, kDetectionRow}, at::kFloat));
    } else {
      result.detections.push_back(
          suppress_one(host[i], candidates_of(chosen, i * pairs, pairs), classes, options));
    }
  }
  return result;
}

}  // namespace ddp::worker
