#include "launcher/plan/wire/connection_slots.h"

#include <algorithm>

namespace ddp::launcher {

std::optional<ConnectionSlots::Id> ConnectionSlots::find_to_drop(const std::string& source) const {
  const auto own = taken_by_source_.find(source);
  if (own == taken_by_source_.end() || own->second < limit_per_source_)
    return slots_.size() < limit_ ? std::nullopt : find_to_drop();
  const auto first = std::ranges::find(slots_, source, &Slot::source);
  return first->id;
}

std::optional<ConnectionSlots::Id> ConnectionSlots::find_to_drop() const {
  std::size_t largest = 0;
  for (const auto& [source, count] : taken_by_source_)
    largest = std::max(largest, count);
  for (const Slot& slot : slots_)
    if (taken_by_source_.at(slot.source) == largest) return slot.id;
  return std::nullopt;
}

void ConnectionSlots::take(Id id, const std::string& source) {
  by_id_.emplace(id, slots_.insert(slots_.end(), Slot{id, source}));
  ++taken_by_source_[source];
}

void ConnectionSlots::note_progress(Id id) {
  const auto found = by_id_.find(id);
  if (found != by_id_.end()) slots_.splice(slots_.end(), slots_, found->second);
}

void ConnectionSlots::release(Id id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  const auto source = taken_by_source_.find(found->second->source);
  if (--source->second == 0) taken_by_source_.erase(source);
  slots_.erase(found->second);
  by_id_.erase(found);
}

}  // namespace ddp::launcher
