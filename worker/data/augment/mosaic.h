// The augmentation `mosaic` joins four images around a point. See worker/data/augment/augment.h for
// its arguments.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "worker/data/augment/augment.h"
#include "worker/image/collage.h"

namespace ddp::worker {

class RandomPerspective;

/// Source: Bochkovskiy et al., YOLOv4, arXiv:2004.10934, section 3.3.
class Mosaic {
 public:
  /// Errors: UsageError.
  explicit Mosaic(const AugmentRequest& request);

  /// The sample's own image goes to the upper left of the point. Errors: those of the source except
  /// for bad samples; UsageError when the input is not an image.
  void operator()(Sample& sample, Random& random, const Source& source) const;
  /// Reads a sample, makes a mosaic of it and moves that by `move`. Gives the same result as the
  /// separate steps, but does not paint the mosaic, and does not copy images that the source keeps.
  /// Precondition: `move` takes any size. Errors: as above; BadSample.
  void read_moved(std::int64_t index,
                  const RandomPerspective& move,
                  Random& random,
                  const Source& source,
                  Sample& into) const;

 private:
  using Others = std::array<Sample, 3>;
  [[nodiscard]] bool is_applied(Random& random) const;
  [[nodiscard]] std::optional<Collage> borrow(std::int64_t index,
                                              const Source& source,
                                              Sample& boxes) const;
  [[nodiscard]] Collage take_other(const Sample& sample,
                                   Random& random,
                                   const Source& source,
                                   Sample& other) const;
  [[nodiscard]] Collage arrange(const Collage& first,
                                Random& random,
                                const Source& source,
                                Sample& sample,
                                Others& others) const;

  int size_;
  double share_;
  std::uint64_t first_epoch_without_;
  std::vector<Augment> before_;
};

/// Whether `augments` has a mosaic: then images may be larger than the data set's.
bool has_mosaic(std::span<const Augment> augments);

}  // namespace ddp::worker
