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

/// What is known of a source before a sample is read.
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
  std::string digest{};                    // of files or of what is in memory; empty: of none

  bool operator==(const DataFacts&) const = default;
};

/// A sample that cannot be read: damaged, empty, too large, gone. Says which file, and why. It is
/// replaced or left out, counted and listed (data.max_bad).
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

  /// A sample that lies in memory as read() gives it, for as long as the source lives: who only
  /// looks at it need not copy it. Null: it has to be read.
  [[nodiscard]] virtual const Sample* kept(std::int64_t /*index*/) const { return nullptr; }

  /// As read(), of an image the part alone that `request` names, in the size that it names: for
  /// sources that then have less to decode. False, and nothing was read or asked of `request`: the
  /// source only has whole samples.
  [[nodiscard]] virtual bool read_part(std::int64_t /*index*/,
                                       const DecodeRequest& /*request*/,
                                       Sample& /*into*/) const {
    return false;
  }

  /// The class of a sample, in [0, facts().classes), without reading it; nothing where that is not
  /// known. Samplers that look at classes need it.
  [[nodiscard]] virtual std::optional<std::int64_t> label(std::int64_t /*index*/) const {
    return {};
  }

  /// The objects of a sample, without reading it; empty where there are none, or they are not
  /// known. They live as long as the source.
  [[nodiscard]] virtual std::span<const AnnotatedBox> boxes(std::int64_t /*index*/) const {
    return {};
  }

  /// The size of a sample's image in its file, without decoding it; nothing where that is not
  /// known, or cannot be read.
  [[nodiscard]] virtual std::optional<ImageSize> image_size(std::int64_t /*index*/) const {
    return {};
  }
};

/// Changes a sample of the training set. It may read others of `source` (mosaic, mixup). Everything
/// that is random in it comes from `random`, so that it is the same for any number of threads and
/// after a resume.
using Augment = std::function<void(Sample& sample, Random& random, const Source& source)>;

/// The two halves of a data set. Shared by the loaders of a run and the program that made them.
struct Sources {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> test;
};

}  // namespace ddp::worker
