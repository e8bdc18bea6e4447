#include "worker/data/augment/mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "common/error.h"
#include "worker/data/augment/sample_image.h"

namespace ddp::worker {
namespace {

constexpr int kMaxBad = 10;  // bad samples in a row

/// What mixup and cutmix have in common.
struct Mixing {
  double alpha = 1;
  double share = 1;
  int classes = 0;
  bool has_boxes = false;
  std::uint64_t first_epoch_without = std::numeric_limits<std::uint64_t>::max();
  std::vector<Augment> before;  // done to the other sample, too
  std::optional<Augment> fit;   // brings both to one size
};

Mixing mixing_of(const AugmentRequest& request, double alpha) {
  Mixing mixing;
  mixing.alpha = request.args.real("alpha", 0.001, 1000, alpha);
  mixing.share = request.args.real("share", 0, 1, 1);
  mixing.classes = request.data.classes;
  mixing.has_boxes = request.data.has_boxes;
  if (mixing.has_boxes) mixing.first_epoch_without = first_epoch_without(request);
  mixing.before = request.before;
  if (request.data.has_varying_size) mixing.fit = fit(request.data);
  return mixing;
}

[[noreturn]] void refuse(const AugmentRequest& request, const char* what) {
  throw UsageError(request.args.where("alpha") + ": only " + what + " can be mixed, and " +
                   request.data.name + " has none. Leave this augmentation out.");
}

/// A number of the Gamma(shape, 1) distribution.
/// Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000; a shape below
/// 1 as in its section 6, and the normal numbers by Box and Muller.
double draw_gamma(double shape, Random& random) {
  if (shape < 1) return draw_gamma(shape + 1, random) * std::pow(1 - random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    const double x = radius * std::cos(2 * std::numbers::pi * random.uniform());
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

/// A draw from Beta(alpha, alpha): the weight of the first sample.
double draw_weight(double alpha, Random& random) {
  const double a = draw_gamma(alpha, random);
  const double b = draw_gamma(alpha, random);
  return a + b > 0 ? a / (a + b) : 0.5;
}

/// The label as a soft label, one weight per class. A soft label stays as it is.
std::vector<float> soft_label_of(const Sample& sample, int classes) {
  std::vector<float> soft_label(static_cast<std::size_t>(classes), 0.0F);
  const Array& target = sample.targets.at(0);
  if (target.type == NumberType::float32 && target.count() == classes) {
    std::memcpy(soft_label.data(), target.bytes.data(), target.bytes.size());
    return soft_label;
  }
  std::int64_t label = 0;
  std::memcpy(&label, target.bytes.data(), sizeof label);
  soft_label.at(static_cast<std::size_t>(label)) = 1;
  return soft_label;
}

void set_soft_label(Sample& sample, const std::vector<float>& soft_label) {
  sample.targets[0].assign({static_cast<std::int64_t>(soft_label.size())},
                           std::span<const float>(soft_label));
}

/// Mixes two labels: `keep` of the sample's own, the rest of the other's.
void mix_labels(Sample& sample, const Sample& other, double keep, int classes) {
  std::vector<float> soft_label = soft_label_of(sample, classes);
  const std::vector<float> others = soft_label_of(other, classes);
  for (std::size_t i = 0; i < soft_label.size(); ++i)
    soft_label[i] = static_cast<float>(keep * soft_label[i] + (1 - keep) * others[i]);
  set_soft_label(sample, soft_label);
}

/// Reads another sample of the same shape. Errors: those of read_other(); UsageError when it has
/// another shape.
void read_alike(const Mixing& mixing,
                const Sample& sample,
                Random& random,
                const Source& source,
                Sample& other) {
  read_other(sample, mixing.before, random, source, other);
  if (mixing.fit) (*mixing.fit)(other, random, source);
  if (other.input.type == NumberType::uint8 && other.input.shape == sample.input.shape) return;
  throw UsageError("data.augment: images of " + shape_text(sample.input.shape) + " and " +
                   shape_text(other.input.shape) +
                   " cannot be mixed. Bring them to one size before.");
}

/// `mix(sample, other, random)` mixes the images and returns how much of the first one stays.
template <typename Mix>
Augment make(Mixing mixing, Mix mix) {
  return [mixing = std::move(mixing), mix](Sample& sample, Random& random, const Source& source) {
    if (mixing.fit) (*mixing.fit)(sample, random, source);
    if (random.uniform() >= mixing.share || random.epoch() >= mixing.first_epoch_without) {
      // Labels of one batch are all of one kind.
      if (!mixing.has_boxes) set_soft_label(sample, soft_label_of(sample, mixing.classes));
      return;
    }
    Sample other;
    read_alike(mixing, sample, random, source, other);
    const double keep = mix(sample.input, other.input, random);
    if (mixing.has_boxes)
      append_boxes(other, sample);
    else
      mix_labels(sample, other, keep, mixing.classes);
  };
}

}  // namespace

void read_other(const Sample& sample,
                std::span<const Augment> before,
                Random& random,
                const Source& source,
                Sample& other) {
  const auto count = static_cast<std::uint64_t>(source.facts().count);
  for (int bad = 0; bad < kMaxBad; ++bad) {
    other.index = static_cast<std::int64_t>(random.below(count));
    try {
      return read_augmented(source, other.index, before, random, other);
    } catch (const BadSample&) {
      continue;  // another one is drawn
    }
  }
  other.index = sample.index;
  read_augmented(source, other.index, before, random, other);
}

std::uint64_t first_epoch_without(const AugmentRequest& request) {
  const std::int64_t close = request.args.integer("close", 0, 1'000'000'000, 10);
  const bool is_ever_closed = close > 0 && request.epochs > close;
  return is_ever_closed ? static_cast<std::uint64_t>(request.epochs - close)
                        : std::numeric_limits<std::uint64_t>::max();
}

Augment make_mixup(const AugmentRequest& request) {
  if (request.data.classes < 1 && !request.data.has_boxes) refuse(request, "labels and boxes");
  const Mixing mixing = mixing_of(request, request.data.has_boxes ? 32 : 0.2);
  return make(mixing, [alpha = mixing.alpha](Array& image, const Array& other, Random& random) {
    const double keep = draw_weight(alpha, random);
    for (std::size_t i = 0; i < image.bytes.size(); ++i) {
      image.bytes[i] =
          static_cast<std::uint8_t>(keep * image.bytes[i] + (1 - keep) * other.bytes[i] + 0.5);
    }
    return keep;
  });
}

Augment make_cutmix(const AugmentRequest& request) {
  if (request.data.classes < 1 || request.data.has_boxes) refuse(request, "labels");
  const Mixing mixing = mixing_of(request, 1);
  return make(mixing, [alpha = mixing.alpha](Array& image, const Array& other, Random& random) {
    const double keep = draw_weight(alpha, random);
    const std::int64_t height = image.shape[1];
    const std::int64_t width = image.shape[2];
    // The rectangle has 1 - keep of the area and the image's ratio. Pixels that it would have
    // beyond the edge stay the first image's, and count as such.
    const double side = std::sqrt(1 - keep);
    const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height)));
    const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
    const auto half_height = static_cast<std::int64_t>(static_cast<double>(height) * side / 2);
    const auto half_width = static_cast<std::int64_t>(static_cast<double>(width) * side / 2);
    const std::int64_t top = std::max<std::int64_t>(y - half_height, 0);
    const std::int64_t bottom = std::min(y + half_height, height);
    const std::int64_t left = std::max<std::int64_t>(x - half_width, 0);
    const std::int64_t right = std::min(x + half_width, width);
    for (std::int64_t row = top; row < bottom; ++row) {
      for (std::int64_t channel = 0; channel < image.shape[0]; ++channel) {
        const auto at = static_cast<std::size_t>((channel * height + row) * width + left);
        std::memcpy(&image.bytes[at], &other.bytes[at], static_cast<std::size_t>(right - left));
      }
    }
    const auto gone = static_cast<double>((bottom - top) * (right - left));
    return 1 - gone / static_cast<double>(height * width);
  });
}

}  // namespace ddp::worker
