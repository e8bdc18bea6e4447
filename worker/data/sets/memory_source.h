// An image set in memory as a source: one label per image.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"

namespace ddp::worker {

/// ResidentLoader uses pixels() instead of read().
class MemorySource final : public Source {
 public:
  explicit MemorySource(ImageSet set);
  /// Shapes: `pixels` [count, channels, height, width], `labels` [count]. Both live as long as
  /// `owner`, which other sources may share.
  MemorySource(DataFacts facts,
               std::span<const std::uint8_t> pixels,
               std::span<const std::uint8_t> labels,
               std::shared_ptr<const void> owner);

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  /// Errors: std::out_of_range for an index outside the set.
  void read(std::int64_t index, Sample& into) const override;
  [[nodiscard]] std::optional<std::int64_t> label(std::int64_t index) const override;
  /// [count, channels, height, width]
  [[nodiscard]] std::span<const std::uint8_t> pixels() const { return pixels_; }
  /// [count]
  [[nodiscard]] std::span<const std::uint8_t> labels() const { return labels_; }

 private:
  explicit MemorySource(const std::shared_ptr<const ImageSet>& set);

  DataFacts facts_;
  std::shared_ptr<const void> owner_;
  std::span<const std::uint8_t> pixels_;
  std::span<const std::uint8_t> labels_;
};

Sources make_sources(DataSet data);

}  // namespace ddp::worker
