#include "worker/data/memory_source.h"

#include <stdexcept>
#include <utility>

namespace ddp::worker {
namespace {

DataFacts facts_of(const ImageSet& set) {
  DataFacts facts;
  facts.name = set.name;
  facts.count = set.count;
  facts.shape = {set.channels, set.height, set.width};
  facts.classes = set.classes;
  facts.mean = set.mean;
  facts.deviation = set.deviation;
  return facts;
}

}  // namespace

MemorySource::MemorySource(ImageSet set) : facts_(facts_of(set)) {
  const auto owner = std::make_shared<const ImageSet>(std::move(set));
  pixels_ = owner->pixels;
  labels_ = owner->labels;
  owner_ = owner;
  facts_.is_in_memory = true;
}

MemorySource::MemorySource(DataFacts facts,
                           std::span<const std::uint8_t> pixels,
                           std::span<const std::uint8_t> labels,
                           std::shared_ptr<const void> owner)
    : facts_(std::move(facts)), owner_(std::move(owner)), pixels_(pixels), labels_(labels) {
  facts_.is_in_memory = true;
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
