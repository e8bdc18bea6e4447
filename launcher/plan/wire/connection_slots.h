// Slots for connections that have not yet shown what they are: so many for all, so many for each
// source, and who goes when one more comes. Pure.
// Promises: a source that has few connections does not lose one to a source that has many; of the
// source that loses one, it is the one that has made no progress for longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

namespace ddp::launcher {

class ConnectionSlots {
 public:
  using Id = std::uint64_t;

  ConnectionSlots(std::size_t most, std::size_t most_of_source)
      : most_(most), of_source_(most_of_source) {}

  /// Who is to be closed and released before one more of `source` comes; nothing: there is a slot.
  [[nodiscard]] std::optional<Id> find_to_drop(const std::string& source) const;
  /// Who makes room for anybody, however many slots there are; nothing: all are empty.
  [[nodiscard]] std::optional<Id> find_to_drop() const;

  /// Precondition: find_to_drop(source) says nothing, and `id` is new.
  void take(Id id, const std::string& source);
  /// What it has said is a step towards what it wants. An id that is not there means nothing.
  void note_progress(Id id);
  void release(Id id);

  [[nodiscard]] std::size_t taken() const { return slots_.size(); }

 private:
  struct Slot {
    Id id = 0;
    std::string source;
  };
  using SlotList = std::list<Slot>;

  const std::size_t most_;
  const std::size_t of_source_;
  SlotList slots_;  // without progress for longest: first
  std::map<Id, SlotList::iterator> by_id_;
  std::map<std::string, std::size_t> of_each_;  // source
};

}  // namespace ddp::launcher
