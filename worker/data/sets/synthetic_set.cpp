#include "worker/data/sets/synthetic_set.h"

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "worker/plan/digest.h"
#include "worker/plan/random.h"

namespace ddp::worker {
namespace {

// Sizes, means and deviations of ImageNet's classification set of 2012, as PyTorch's recipe has
// them: github.com/pytorch/examples, imagenet/main.py.
constexpr std::int64_t kImageNetClasses = 1000;
constexpr std::int64_t kImageNetTrainSize = 1281167;
constexpr std::int64_t kImageNetTestSize = 50000;
const std::vector<float> kImageNetMean{0.485F, 0.456F, 0.406F};
const std::vector<float> kImageNetDeviation{0.229F, 0.224F, 0.225F};

// Of bytes that are all equally likely: sqrt((256^2 - 1) / 12) / 255.
constexpr float kEvenMean = 0.5F;
constexpr float kEvenDeviation = 0.2898F;

constexpr std::int64_t kMaxSyntheticClasses = 1'000'000;
constexpr std::int64_t kMaxSyntheticChannels = 64;
constexpr std::size_t kOffsets = 1 << 16;  // places in the random bytes where an image may begin

constexpr std::uint64_t kTrain = 1;
constexpr std::uint64_t kTest = 2;

DataFacts facts_of(const DataRequest& request, const std::string& split, std::int64_t count) {
  DataFacts facts;
  facts.name = request.name + " " + split;
  facts.count = count;
  const std::int64_t channels = request.args.integer("channels", 1, kMaxSyntheticChannels, 3);
  facts.shape = {channels, request.image_size, request.image_size};
  facts.classes =
      static_cast<int>(request.args.integer("classes", 1, kMaxSyntheticClasses, kImageNetClasses));
  const auto number = static_cast<std::size_t>(channels);
  facts.mean = channels == 3 ? kImageNetMean : std::vector<float>(number, kEvenMean);
  facts.standard_deviation =
      channels == 3 ? kImageNetDeviation : std::vector<float>(number, kEvenDeviation);
  return facts;
}

}  // namespace

SyntheticSource::SyntheticSource(DataFacts facts, std::uint64_t seed)
    : facts_(std::move(facts)), seed_(seed) {
  image_bytes_ = 1;
  for (const std::int64_t size : facts_.shape)
    image_bytes_ *= static_cast<std::size_t>(size);
  bytes_.resize(image_bytes_ + kOffsets);
  Random random(seed_, 0, 0);
  for (std::uint8_t& byte : bytes_)
    byte = static_cast<std::uint8_t>(random.next() >> 56);
  facts_.is_in_memory = true;
  facts_.digest = digest(std::as_bytes(std::span(bytes_)));
}

void SyntheticSource::read(std::int64_t index, Sample& into) const {
  if (index < 0 || index >= facts_.count)
    throw std::out_of_range("sample index outside " + facts_.name);
  Random random = random_of(index);
  const auto label = static_cast<std::int64_t>(random.below(label_count()));
  const std::size_t offset = random.below(kOffsets);
  into.index = index;
  into.input.assign(facts_.shape, std::span(bytes_).subspan(offset, image_bytes_));
  into.targets.resize(1);
  into.targets[0].assign({}, std::span(&label, 1));
}

std::optional<std::int64_t> SyntheticSource::label(std::int64_t index) const {
  return static_cast<std::int64_t>(random_of(index).below(label_count()));
}

Random SyntheticSource::random_of(std::int64_t index) const {
  return {seed_, 1, static_cast<std::uint64_t>(index)};
}

Sources make_synthetic_set(const DataRequest& request) {
  const std::int64_t train = request.train_size.value_or(kImageNetTrainSize);
  const std::int64_t test = request.test_size.value_or(kImageNetTestSize);
  return {std::make_shared<SyntheticSource>(facts_of(request, "train", train),
                                            counted_seed(request.seed, kTrain, 0)),
          std::make_shared<SyntheticSource>(facts_of(request, "test", test),
                                            counted_seed(request.seed, kTest, 0))};
}

}  // namespace ddp::worker
