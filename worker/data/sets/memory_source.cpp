#include "worker/data/sets/memory_source.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "worker/data/sets/class_names.h"
#include "worker/plan/digest.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kDigested = 256;  // images, and up to twice as many

DataFacts facts_of(const ImageSet& set) {
  DataFacts facts;
  facts.name = set.name;
  facts.count = set.count;
  facts.shape = {set.channels, set.height, set.width};
  facts.classes = set.classes;
  facts.mean = set.mean;
  facts.standard_deviation = set.standard_deviation;
  facts.class_names = published_classes(set.name);
  return facts;
}

/// A digest of all labels and of the pixels of some images, so that a large set costs no more than
/// a small one.
std::string digest_of(std::int64_t count,
                      std::span<const std::uint8_t> pixels,
                      std::span<const std::uint8_t> labels) {
  Digest all;
  all.update(std::as_bytes(labels));
  const auto images = static_cast<std::size_t>(count);
  const std::size_t size = images > 0 ? pixels.size() / images : 0;
  for (std::size_t i = 0; i < images; i += std::max(images / kDigested, std::size_t{1}))
    all.update(std::as_bytes(pixels.subspan(i * size, size)));
  return all.text();
}

}  // namespace

MemorySource::MemorySource(ImageSet set)
    : MemorySource(std::make_shared<const ImageSet>(std::move(set))) {}

MemorySource::MemorySource(const std::shared_ptr<const ImageSet>& set)
    : MemorySource(facts_of(*set), set->pixels, set->labels, set) {}

MemorySource::MemorySource(DataFacts facts,
                           std::span<const std::uint8_t> pixels,
                           std::span<const std::uint8_t> labels,
                           std::shared_ptr<const void> owner)
    : facts_(std::move(facts)), owner_(std::move(owner)), pixels_(pixels), labels_(labels) {
  facts_.is_in_memory = true;
  facts_.digest = digest_of(facts_.count, pixels_, labels_);
}

void MemorySource::read(std::int64_t index, Sample& into) const {
  if (index < 0 || index >= facts_.count)
    throw std::out_of_range("sample index outside " + facts_.name);
  const auto place = static_cast<std::size_t>(index);
  const std::size_t size = pixels_.size() / static_cast<std::size_t>(facts_.count);
  into.index = index;
  into.input.assign(facts_.shape, pixels_.subspan(place * size, size));
  into.targets.resize(1);
  const std::int64_t label = labels_[place];
  into.targets[0].assign({}, std::span<const std::int64_t>(&label, 1));
}

std::optional<std::int64_t> MemorySource::label(std::int64_t index) const {
  return labels_[static_cast<std::size_t>(index)];
}

Sources make_sources(DataSet data) {
  return {std::make_shared<MemorySource>(std::move(data.train)),
          std::make_shared<MemorySource>(std::move(data.test))};
}

}  // namespace ddp::worker
