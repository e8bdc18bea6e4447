// Where samples come from: a set in memory, files, or a user's own source.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "worker/data/annotations.h"
#include "worker/data/sample.h"
#include "worker/image/decode.h"
#include "worker/plan/random.h"

namespace ddp::worker {

/// What is known of a source before a sample is read.
struct DataFacts {
  std::string name;  // "mnist train"
  std::int64_t count = 0;
  std::vector<std::int64_t> shape;  // of every input: [channels, height, width]
  int classes = 0;                  // 0: this is not a classification
  std::vector<float> mean;          // [channels], of pixel / 255; empty: bytes are not normalised
  std::vector<float> standard_deviation;  // [channels], of pixel / 255
  std::int64_t boxes = 0;                 // in all samples together
  bool has_boxes = false;  // target 0 of a sample: [boxes, 5], see data/augment/sample_image.h
  // Images have any size; the last augmentation fits them to `shape`.
  bool has_varying_size = false;
  std::optional<Color> background{};       // under transparent pixels of images in files
  bool is_in_memory = false;               // reading a sample is cheap
  std::vector<std::string> class_names{};  // [classes], or empty
  std::string digest{};                    // of the files or of the pixels; empty: not known
  std::int64_t left_out = 0;               // files beside the images that are none of the set's

  bool operator==(const DataFacts&) const = default;
};

/// A sample that cannot be read: damaged, empty, too large, gone. The text says which file, and
/// why. The loader replaces it or leaves it out, counts it and lists it (data.max_bad).
class BadSample : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  [[nodiscard]] virtual const DataFacts& facts() const = 0;

  /// Fills `into`, whose buffers may hold another sample. Called by several threads at once, each
  /// with a sample of its own. `index` is in [0, facts().count). Errors: BadSample; UsageError for
  /// data with which nothing can go on.
  virtual void read(std::int64_t index, Sample& into) const = 0;

  /// A sample that the source keeps in memory, as read() gives it, valid as long as the source:
  /// saves a copy to callers that only look at it. Null: it must be read.
  [[nodiscard]] virtual const Sample* kept(std::int64_t /*index*/) const { return nullptr; }

  /// As read(), but only the part of the image that `request` names, at the size that it names: for
  /// sources that then decode less. False if the source only has whole samples; then nothing was
  /// read, and no function of `request` was called.
  [[nodiscard]] virtual bool read_part(std::int64_t /*index*/,
                                       const DecodeRequest& /*request*/,
                                       Sample& /*into*/) const {
    return false;
  }

  /// The class of a sample, in [0, facts().classes), without reading it; no value if it is not
  /// known. Samplers that balance classes need it.
  [[nodiscard]] virtual std::optional<std::int64_t> label(std::int64_t /*index*/) const {
    return {};
  }

  /// The objects of a sample, without reading it; empty if there are none, or they are not known.
  /// They live as long as the source.
  [[nodiscard]] virtual std::span<const AnnotatedBox> boxes(std::int64_t /*index*/) const {
    return {};
  }

  /// The size of a sample's image in its file, without decoding it; no value if it is not known, or
  /// cannot be read.
  [[nodiscard]] virtual std::optional<ImageSize> image_size(std::int64_t /*index*/) const {
    return {};
  }
};

/// Changes a sample of the training set. It may read other samples of `source` (mosaic, mixup). It
/// takes all random numbers from `random`, so that the result is the same for any number of threads
/// and after a resume.
using Augment = std::function<void(Sample& sample, Random& random, const Source& source)>;

/// The two splits of a data set. Loaders share ownership with the program that made them.
struct Sources {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> test;
};

}  // namespace ddp::worker
