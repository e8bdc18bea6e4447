#include "worker/data/mosaic.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/error.h"
#include "worker/data/crops.h"
#include "worker/data/mix.h"
#include "worker/data/sample_image.h"
#include "worker/image/geometry.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

/// So that the larger side is `size`, as in all of the family. Returns the size then.
ImageSize shrink(Sample& sample, int size) {
  SampleImage image(sample);
  resize_to(image, resized_larger_side(image.image().size(), size));
  return image.image().size();
}

/// Copies a sample's image to (top, left) of the canvas; its boxes move with it, and what of them
/// is outside is cut off.
void place(Sample& sample, int top, int left, Image& canvas) {
  SampleImage image(sample);
  if (image.image().channels != canvas.channels)
    throw UsageError("data.augment: a mosaic of images in color and in grey. Leave it out.");
  paste(image.image(), top, left, canvas);
  const Region seen{-top, -left, canvas.height, canvas.width};
  image.move_boxes([&](const Box& box) { return crop(box, seen, kLeastOfBox); });
}

/// On which side of the point an image is.
struct Quarter {
  bool is_above;
  bool is_left;
};

constexpr std::array<Quarter, 4> kQuarters{
    {{true, true}, {true, false}, {false, true}, {false, false}}};

/// What is kept from one mosaic to the next of a thread, for its memory. Whoever uses it takes it:
/// a mosaic may be among what another one does to its samples.
struct Spare {
  Image canvas;
  Sample other;
};
thread_local Spare spare;

}  // namespace

Mosaic::Mosaic(const AugmentRequest& request)
    : size_(side_of(request.args, request.data)),
      share_(request.args.real("share", 0, 1, 1)),
      closed_from_(closed_from(request)),
      before_(request.before) {
  if (request.data.has_boxes) return;
  throw UsageError(request.args.where("size") + ": a mosaic needs boxes, and " + request.data.name +
                   " has none. Leave it out.");
}

void Mosaic::operator()(Sample& sample, Random& random, const Source& source) const {
  ImageSize image = shrink(sample, size_);
  if (random.uniform() >= share_ || random.epoch() >= closed_from_) return;
  const auto draw = [&] {
    return size_ / 2 + static_cast<int>(random.below(static_cast<std::uint64_t>(size_) + 1));
  };
  const int down = draw();
  const int right = draw();
  auto [canvas, other] = std::exchange(spare, {});
  canvas.reshape(static_cast<int>(sample.input.shape[0]), {2 * size_, 2 * size_});
  std::ranges::fill(canvas.bytes, kGrey[0]);
  for (const auto& [is_above, is_left] : kQuarters) {
    const bool is_first = is_above && is_left;
    if (!is_first) {
      read_other(sample, before_, random, source, other);
      image = shrink(other, size_);
    }
    Sample& one = is_first ? sample : other;
    place(
        one, is_above ? down - image.height : down, is_left ? right - image.width : right, canvas);
    if (!is_first) append_boxes(other, sample);
  }
  sample.input.bytes.swap(canvas.bytes);
  sample.input.shape = {canvas.channels, canvas.height, canvas.width};
  spare = {std::move(canvas), std::move(other)};
}

bool has_mosaic(std::span<const Augment> augments) {
  return std::ranges::any_of(
      augments, [](const Augment& augment) { return augment.target<Mosaic>() != nullptr; });
}

}  // namespace ddp::worker
