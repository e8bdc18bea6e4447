// Slots for unproven connections: a limit for all, a limit per source, and which connection is
// dropped when one more comes. Pure.
// Promises: a source with few connections does not lose one to a source with many. A source loses
// the connection that has made no progress for longest.
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

  ConnectionSlots(std::size_t limit, std::size_t limit_per_source)
      : limit_(limit), limit_per_source_(limit_per_source) {}

  /// The connection to close and release before one more of `source` is taken; nothing: a slot is
  /// free.
  [[nodiscard]] std::optional<Id> find_to_drop(const std::string& source) const;
  /// The connection to close when any room is needed; nothing: all slots are free.
  [[nodiscard]] std::optional<Id> find_to_drop() const;

  /// Precondition: find_to_drop(source) returns nothing, and `id` is new.
  void take(Id id, const std::string& source);
  /// The connection has made progress in its handshake. An unknown id is ignored.
  void note_progress(Id id);
  void release(Id id);

  [[nodiscard]] std::size_t taken() const { return slots_.size(); }

 private:
  struct Slot {
    Id id = 0;
    std::string source;
  };
  using SlotList = std::list<Slot>;

  const std::size_t limit_;
  const std::size_t limit_per_source_;
  SlotList slots_;  // first: longest without progress
  std::map<Id, SlotList::iterator> by_id_;
  std::map<std::string, std::size_t> taken_by_source_;
};

}  // namespace ddp::launcher
