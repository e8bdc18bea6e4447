#include "worker/data/memory_source.h"

#include <span>
#include <stdexcept>
#include <utility>

namespace ddp::worker {

MemorySource::MemorySource(ImageSet set) : set_(std::move(set)) {
  facts_ = {set_.name,
            set_.count,
            {set_.channels, set_.height, set_.width},
            set_.classes,
            set_.mean,
            set_.deviation};
  facts_.is_in_memory = true;
}

void MemorySource::read(std::int64_t index, Sample& into) const {
  if (index < 0 || index >= set_.count)
    throw std::out_of_range("sample index outside " + set_.name);
  const auto place = static_cast<std::size_t>(index);
  const auto size = static_cast<std::size_t>(set_.channels * set_.height * set_.width);
  into.index = index;
  into.input.assign(facts_.shape, std::span(set_.pixels).subspan(place * size, size));
  into.targets.resize(1);
  const std::int64_t label = set_.labels[place];
  into.targets[0].assign({}, std::span<const std::int64_t>(&label, 1));
}

Sources make_sources(DataSet data) {
  return {std::make_shared<MemorySource>(std::move(data.train)),
          std::make_shared<MemorySource>(std::move(data.test))};
}

}  // namespace ddp::worker
