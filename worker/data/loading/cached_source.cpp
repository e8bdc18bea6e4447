#include "worker/data/loading/cached_source.h"

#include <utility>

namespace ddp::worker {
namespace {

std::size_t bytes_of(const Sample& sample) {
  std::size_t bytes = sample.input.bytes.size();
  for (const Array& target : sample.targets)
    bytes += target.bytes.size();
  return bytes;
}

}  // namespace

CachedSource::CachedSource(std::shared_ptr<const Source> source, std::size_t bytes)
    : source_(std::move(source)),
      bytes_left_(bytes),
      kept_(static_cast<std::size_t>(source_->facts().count)) {}

void CachedSource::read(std::int64_t index, Sample& into) const {
  if (const Sample* const sample = kept(index)) {
    into.input = sample->input;
    into.targets = sample->targets;
    return;
  }
  source_->read(index, into);
  keep(index, into);
}

const Sample* CachedSource::kept(std::int64_t index) const {
  // For another index the source itself raises the error.
  if (index < 0 || index >= facts().count) return nullptr;
  const std::lock_guard lock(mutex_);
  return kept_[static_cast<std::size_t>(index)].get();
}

void CachedSource::keep(std::int64_t index, const Sample& sample) const {
  const std::size_t bytes = bytes_of(sample);
  {
    const std::lock_guard lock(mutex_);
    if (bytes > bytes_left_) return;
    bytes_left_ -= bytes;
  }
  // Copies outside the lock. If another thread keeps the same sample, one of the copies is dropped.
  auto copy = std::make_unique<const Sample>(sample);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const Sample>& place = kept_[static_cast<std::size_t>(index)];
  if (place == nullptr)
    place = std::move(copy);
  else
    bytes_left_ += bytes;
}

}  // namespace ddp::worker
