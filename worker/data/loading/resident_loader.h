// Keeps an image set on the device as bytes, and makes batches there: a few operators gather, move
// and normalise pixels by indices, so a batch costs only a small copy from the host. Promises:
// batches equal those of a Loader with the same options, bit for bit and with the same strides, on
// every device. The host does not wait for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "worker/data/augment/pixel_map.h"
#include "worker/data/augment/pixel_move.h"
#include "worker/data/loading/batch_loader.h"
#include "worker/data/loading/loader.h"
#include "worker/data/sets/memory_source.h"

namespace ddp::worker {

class ResidentLoader : public BatchLoader {
 public:
  /// The index of the first augmentation that only a Loader can do; no value: there is none.
  static std::optional<std::size_t> first_unsupported(std::span<const Augment> augments);
  /// The device memory that a set needs, at most, while it is copied there.
  static std::int64_t bytes_of(const DataFacts& facts);

  /// Copies the set to the device. Ignores the parts of `options` that do not change batches:
  /// threads, bad samples, copies. The stream that is current now must also be current in next()
  /// and load(). Preconditions: the set has a mean; first_unsupported() finds nothing; with
  /// augmentations, is_image() is true of its shape. Errors: std::logic_error for an augmentation
  /// that is not supported; c10::Error when the device's memory does not suffice.
  ResidentLoader(std::shared_ptr<const MemorySource> source,
                 const LoaderOptions& options,
                 at::Device device);

  using BatchLoader::load;
  /// Errors: std::out_of_range for an index outside the set.
  [[nodiscard]] Batch load(std::span<const std::int64_t> indices,
                           std::int64_t epoch) const override;
  void start(NextMicroBatch plans) override { plans_ = std::move(plans); }
  [[nodiscard]] Batch next() override;

  [[nodiscard]] const DataFacts& facts() const override { return source_->facts(); }
  [[nodiscard]] std::chrono::nanoseconds waited() const override { return waited_; }
  // All samples are in memory, so none is bad.
  [[nodiscard]] std::size_t bad_count() const override { return 0; }
  [[nodiscard]] Bad take_bad_samples() override { return {}; }

 private:
  [[nodiscard]] at::Tensor place_pixels() const;
  /// Draws the augmentations of a sample.
  void draw(std::int64_t index, std::int64_t epoch, PixelMap& map) const;
  /// How many numbers write_lines() writes for so many samples.
  [[nodiscard]] std::int64_t lines_of(std::int64_t samples) const;
  /// Writes where the pixels come from: for all samples rows, columns, and the rectangles of both.
  void write_lines(std::span<const std::int64_t> indices,
                   std::int64_t epoch,
                   std::int64_t* into) const;
  /// Which rows of pixels_ the augmented images consist of, from the numbers of write_lines().
  [[nodiscard]] at::Tensor find_pixels(const at::Tensor& lines, std::int64_t samples) const;

  std::shared_ptr<const MemorySource> source_;
  std::vector<PixelMove> moves_;
  std::uint64_t seed_;
  std::int64_t repeats_;
  at::MemoryFormat layout_;
  at::Device device_;
  ImageSize image_;          // in the set
  ImageSize moved_;          // in a batch, after the augmentations
  bool has_erased_ = false;  // some augmentation paints rectangles
  // Without moves [images, H W C]. Else [images (H + 1) (W + 1), C]: each image has one more row
  // and column, which are black, for pixels from outside of the image.
  at::Tensor pixels_;
  at::Tensor labels_;           // [images]
  at::Tensor pixel_table_;      // [C 256]: the normalised values of all bytes, by channel
  at::Tensor channel_offsets_;  // [H W C], augmented: where each channel's values begin
  NextMicroBatch plans_;
  std::chrono::nanoseconds waited_{0};
};

}  // namespace ddp::worker
