// Where samples come from: a set in memory, files, or whatever a program brings.
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

/// Facts about a source that are known before a sample is read.
struct DataFacts {
  std::string name;  // "mnist train"
  std::int64_t count = 0;
  std::vector<std::int64_t> shape;  // of every input: [channels, height, width]
  int classes = 0;                  // 0: this is not a classification
  std::vector<float> mean;          // [channels], of pixel / 255; empty: bytes are not normalised
  std::vector<float> deviation;     // [channels], of pixel / 255
  std::int64_t boxes = 0;           // in all samples
  bool has_boxes = false;     // target 0 of a sample: [boxes, 5], see data/augment/sample_image.h
  bool varies = false;        // images come in any size; they are fitted to `shape` at the end
  bool is_in_memory = false;  // reading a sample costs next to nothing
  std::vector<std::string> class_names{};  // [classes], or empty
  std::string digest{};                    // of files or of memory; empty: there is none

  bool operator==(const DataFacts&) const = default;
};

/// A sample that cannot be read: damaged, empty, too large, gone. The text says which file, and
/// why. The sample is replaced or left out, counted and listed (data.max_bad).
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

  /// The sample in memory, as read() gives it, for as long as the source lives: a caller that only
  /// looks at it need not copy it. Null: it has to be read.
  [[nodiscard]] virtual const Sample* kept(std::int64_t /*index*/) const { return nullptr; }

  /// As read(), but of an image only the part that `request` names, in the size that it names: for
  /// sources that have less to decode then. False if the source only has whole samples: nothing was
  /// read, and `request` was not asked.
  [[nodiscard]] virtual bool read_part(std::int64_t /*index*/,
                                       const DecodeRequest& /*request*/,
                                       Sample& /*into*/) const {
    return false;
  }

  /// The class of a sample, in [0, facts().classes), without reading it; no value if it is not
  /// known. Samplers that look at classes need it.
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

/// Changes a sample of the training set. It may read other samples of `source` (mosaic, mixup). All
/// its random numbers come from `random`, so that the result is the same for any number of threads
/// and after a resume.
using Augment = std::function<void(Sample& sample, Random& random, const Source& source)>;

/// The two halves of a data set. The loaders of a run share them with the program that made them.
struct Sources {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> test;
};

}  // namespace ddp::worker
