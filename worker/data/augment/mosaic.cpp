#include "worker/data/augment/mosaic.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/error.h"
#include "worker/data/augment/crops.h"
#include "worker/data/augment/mix.h"
#include "worker/data/augment/random_perspective.h"
#include "worker/data/augment/sample_image.h"
#include "worker/image/resize.h"

namespace ddp::worker {
namespace {

constexpr int kLeastSize = 32;  // the largest stride of a detector

/// Resizes the image so that its larger side is `size`, as the YOLO family does.
void shrink(Sample& sample, int size) {
  SampleImage image(sample);
  resize_to(image, resized_larger_side(image.image().size(), size));
}

/// On which side of the point an image lies.
struct Quarter {
  bool is_above;
  bool is_left;
};

constexpr std::array<Quarter, 4> kQuarters{
    {{true, true}, {true, false}, {false, true}, {false, false}}};

/// Memory that a thread reuses for its next mosaic. A function moves it out before use, because
/// reading a sample may make another mosaic.
struct Spare {
  Image canvas;
  Array first;
  std::array<Sample, 3> others;
};
thread_local Spare spare;

}  // namespace

Mosaic::Mosaic(const AugmentRequest& request)
    : size_(side_of(request.args, request.data)),
      share_(request.args.real("share", 0, 1, 1)),
      first_epoch_without_(first_epoch_without(request)),
      before_(request.before) {
  if (!request.data.has_boxes) {
    throw UsageError(request.args.where("size") + ": a mosaic needs boxes, and " +
                     request.data.name + " has none. Leave it out.");
  }
  if (size_ < kLeastSize) {
    throw UsageError(request.args.where("size") + ": " + std::to_string(size_) +
                     " pixels are too few for an image of a mosaic. Give " +
                     std::to_string(kLeastSize) + " or more, or leave it out.");
  }
}

bool Mosaic::is_applied(Random& random) const {
  return random.uniform() < share_ && random.epoch() < first_epoch_without_;
}

/// The image of a sample that its source keeps in memory, without a copy; `boxes` gets its boxes.
/// No value if the source does not keep it.
std::optional<Collage> Mosaic::borrow(std::int64_t index,
                                      const Source& source,
                                      Sample& boxes) const {
  const Sample* const kept = source.kept(index);
  if (kept == nullptr) return {};
  Collage image = collage_of(kept->input);
  if (resized_larger_side(image.size, size_) != image.size) return {};
  boxes.targets = kept->targets;
  return image;
}

/// As read_other(), with the image in the size of this mosaic.
Collage Mosaic::take_other(const Sample& sample,
                           Random& random,
                           const Source& source,
                           Sample& other) const {
  if (before_.empty()) {
    // Looks ahead at the index that read_other() would draw: perhaps that sample is kept.
    Random ahead = random;
    other.index =
        static_cast<std::int64_t>(ahead.below(static_cast<std::uint64_t>(source.facts().count)));
    if (std::optional<Collage> borrowed = borrow(other.index, source, other)) {
      random = ahead;
      return *borrowed;
    }
  }
  read_other(sample, before_, random, source, other);
  shrink(other, size_);
  return collage_of(other.input);
}

/// Places four images around a point. `sample` has the first one's boxes, and gets those of the
/// others.
Collage Mosaic::arrange(const Collage& first,
                        Random& random,
                        const Source& source,
                        Sample& sample,
                        Others& others) const {
  const auto draw = [&] {
    return size_ / 2 + static_cast<int>(random.below(static_cast<std::uint64_t>(size_) + 1));
  };
  const int down = draw();
  const int right = draw();
  Collage collage{first.channels, {2 * size_, 2 * size_}, kGrey, {}};
  for (std::size_t i = 0; i < kQuarters.size(); ++i) {
    const auto [is_above, is_left] = kQuarters[i];
    Sample& boxes = i == 0 ? sample : others[i - 1];
    const Collage image = i == 0 ? first : take_other(sample, random, source, boxes);
    if (image.channels != collage.channels)
      throw UsageError("data.augment: a mosaic of images in color and in grey. Leave it out.");
    Piece piece = image.pieces.at(0);
    piece.top = is_above ? down - piece.size.height : down;
    piece.left = is_left ? right - piece.size.width : right;
    const Region seen{-piece.top, -piece.left, collage.size.height, collage.size.width};
    // Cuts boxes at the edge of the mosaic.
    move_boxes(boxes, [&](const Box& box) { return crop(box, seen, kLeastOfBox); });
    if (i > 0) append_boxes(boxes, sample);
    collage.pieces.push_back(piece);
  }
  return collage;
}

void Mosaic::operator()(Sample& sample, Random& random, const Source& source) const {
  shrink(sample, size_);
  if (!is_applied(random)) return;
  Spare mine = std::exchange(spare, {});
  const Collage collage = arrange(collage_of(sample.input), random, source, sample, mine.others);
  paint(collage, mine.canvas);
  sample.input.bytes.swap(mine.canvas.bytes);
  sample.input.shape = {collage.channels, collage.size.height, collage.size.width};
  spare = std::move(mine);
}

void Mosaic::read_moved(std::int64_t index,
                        const RandomPerspective& move,
                        Random& random,
                        const Source& source,
                        Sample& into) const {
  Spare mine = std::exchange(spare, {});
  std::optional<Collage> image = borrow(index, source, into);
  if (!image) {
    source.read(index, into);
    shrink(into, size_);
    std::swap(into.input, mine.first);
    image = collage_of(mine.first);
  }
  if (is_applied(random)) image = arrange(*image, random, source, into, mine.others);
  move.move(*image, random, into);
  spare = std::move(mine);
}

bool has_mosaic(std::span<const Augment> augments) {
  return std::ranges::any_of(
      augments, [](const Augment& augment) { return augment.target<Mosaic>() != nullptr; });
}

}  // namespace ddp::worker
