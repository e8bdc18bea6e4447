// A source that keeps decoded samples in memory, because mosaic and mixup read each image several
// times an epoch.
// Promises: samples are the same with it and without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "worker/data/source.h"

namespace ddp::worker {

class CachedSource : public Source {
 public:
  /// Keeps the samples of `source` that are read first, until they fill `bytes`. None is evicted,
  /// because all samples are read equally often.
  CachedSource(std::shared_ptr<const Source> source, std::size_t bytes);

  [[nodiscard]] const DataFacts& facts() const override { return source_->facts(); }
  /// Errors: those of the source.
  void read(std::int64_t index, Sample& into) const override;
  [[nodiscard]] const Sample* kept(std::int64_t index) const override;
  /// Parts are not kept: they differ each time that they are read.
  [[nodiscard]] bool read_part(std::int64_t index,
                               const DecodeRequest& request,
                               Sample& into) const override {
    return source_->read_part(index, request, into);
  }
  [[nodiscard]] std::optional<std::int64_t> label(std::int64_t index) const override {
    return source_->label(index);
  }
  [[nodiscard]] std::span<const AnnotatedBox> boxes(std::int64_t index) const override {
    return source_->boxes(index);
  }
  [[nodiscard]] std::optional<ImageSize> image_size(std::int64_t index) const override {
    return source_->image_size(index);
  }

 private:
  void keep(std::int64_t index, const Sample& sample) const;

  std::shared_ptr<const Source> source_;
  mutable std::mutex mutex_;  // guards what follows; kept samples never change
  mutable std::size_t bytes_left_;
  mutable std::vector<std::unique_ptr<const Sample>> kept_;  // [count], null: not kept
};

}  // namespace ddp::worker
