#include "worker/data/augment/sample_image.h"

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

void move_boxes(Sample& sample, const std::function<std::optional<Box>(const Box&)>& move) {
  if (sample.targets.empty() || !is_boxes(sample.targets[0])) return;
  Array& boxes = sample.targets[0];
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

bool is_image(const std::vector<std::int64_t>& shape) {
  return shape.size() == 3 && (shape[0] == 1 || shape[0] == 3);
}

Collage collage_of(const Array& input) {
  const std::vector<std::int64_t>& shape = input.shape;
  if (input.type != NumberType::uint8 || !is_image(shape)) {
    throw UsageError(
        "data.augment: an augmentation of images needs bytes of 1 or 3 channels, and " +
        std::string("a sample is ") + shape_text(shape) + ". Leave it out.");
  }
  const ImageSize size{static_cast<int>(shape[1]), static_cast<int>(shape[2])};
  return {static_cast<int>(shape[0]), size, {}, {{input.bytes, size}}};
}

void make_image(Sample& sample, const std::function<void(Image& into)>& make) {
  Image image;
  image.bytes.swap(sample.input.bytes);
  make(image);
  image.bytes.swap(sample.input.bytes);
  sample.input.type = NumberType::uint8;
  sample.input.shape = {image.channels, image.height, image.width};
}

SampleImage::SampleImage(Sample& sample) : sample_(sample) {
  const Collage whole = collage_of(sample.input);
  image_.channels = whole.channels;
  image_.height = whole.size.height;
  image_.width = whole.size.width;
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

void SampleImage::flip_horizontal() {
  ddp::worker::flip_horizontal(image_);
  move_boxes([this](const Box& box) { return ddp::worker::flip_horizontal(box, size()); });
}

void SampleImage::flip_vertical() {
  ddp::worker::flip_vertical(image_);
  move_boxes([this](const Box& box) { return ddp::worker::flip_vertical(box, size()); });
}

void SampleImage::crop(const Region& region, const Border& border) {
  replace([&](const Image& from, Image& into) { ddp::worker::crop(from, region, border, into); });
  move_boxes([&](const Box& box) { return ddp::worker::crop(box, region, kLeastOfBox); });
}

void SampleImage::erase(const Region& region) {
  ddp::worker::erase(image_, region, {});
}

void SampleImage::move(const Affine& affine, Interpolation interpolation) {
  const ImageSize size = image_.size();
  replace(
      [&](const Image& from, Image& into) { move_affine(from, affine, interpolation, {}, into); });
  move_boxes(
      [&](const Box& box) { return clip(move_affine(box, affine, size), size, kLeastOfBox); });
}

}  // namespace ddp::worker
