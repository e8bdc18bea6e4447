#include "worker/data/sample_image.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

bool is_boxes(const Array& target) {
  return target.type == NumberType::float32 && target.shape.size() == 2 &&
         target.shape[1] == kBoxRow;
}

}  // namespace

void append_boxes(const Sample& other, Sample& sample) {
  const Array& more = other.targets.at(0);
  Array& boxes = sample.targets.at(0);
  boxes.bytes.insert(boxes.bytes.end(), more.bytes.begin(), more.bytes.end());
  boxes.shape.at(0) += more.shape.at(0);
}

SampleImage::SampleImage(Sample& sample) : sample_(sample) {
  const std::vector<std::int64_t>& shape = sample.input.shape;
  if (sample.input.type != NumberType::uint8 || shape.size() != 3 ||
      (shape[0] != 1 && shape[0] != 3)) {
    throw UsageError(
        "data.augment: an augmentation of images needs bytes of 1 or 3 channels, and " +
        std::string("a sample is ") + shape_text(shape) + ". Leave it out.");
  }
  image_.channels = static_cast<int>(shape[0]);
  image_.height = static_cast<int>(shape[1]);
  image_.width = static_cast<int>(shape[2]);
  image_.bytes.swap(sample.input.bytes);
}

SampleImage::~SampleImage() {
  sample_.input.bytes.swap(image_.bytes);
  sample_.input.shape = {image_.channels, image_.height, image_.width};
}

void SampleImage::replace(const std::function<void(const Image& from, Image& into)>& make) {
  thread_local Image spare;  // keeps its memory from one sample to the next
  make(image_, spare);
  std::swap(image_, spare);
}

void SampleImage::move(const Affine& affine, Interpolation interpolation) {
  const ImageSize size = image_.size();
  replace(
      [&](const Image& from, Image& into) { move_affine(from, affine, interpolation, {}, into); });
  move_boxes(
      [&](const Box& box) { return clip(move_affine(box, affine, size), size, kLeastOfBox); });
}

void SampleImage::move_boxes(const std::function<std::optional<Box>(const Box&)>& move) {
  if (sample_.targets.empty() || !is_boxes(sample_.targets[0])) return;
  Array& boxes = sample_.targets[0];
  const std::size_t size = kBoxRow * sizeof(float);
  std::int64_t left = 0;
  for (std::int64_t i = 0; i < boxes.shape[0]; ++i) {
    std::array<float, kBoxRow> row{};
    std::memcpy(row.data(), boxes.bytes.data() + static_cast<std::size_t>(i) * size, size);
    const std::optional<Box> moved = move({row[1], row[2], row[3], row[4]});
    if (!moved) continue;
    row = {row[0], moved->left, moved->top, moved->right, moved->bottom};
    std::memcpy(boxes.bytes.data() + static_cast<std::size_t>(left++) * size, row.data(), size);
  }
  boxes.shape[0] = left;
  boxes.bytes.resize(static_cast<std::size_t>(left) * size);
}

}  // namespace ddp::worker
