#include "launcher/plan/store/key_space.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

namespace ddp::launcher {
namespace {

constexpr std::size_t kEntryBytes = 128;  // of a map's entry besides its texts, roughly
constexpr std::size_t kQueueBytes = 640;  // of an empty queue, roughly
constexpr std::size_t kDigits = 20;       // of an i64 with sign

std::size_t cost(const std::string& key, const std::string& value) {
  return kEntryBytes + key.size() + value.size();
}

std::size_t list_cost(const std::string& key) {
  return sizeof(std::uint64_t) + key.size();
}

/// The memory that the store may need to keep the request; 0 for requests that keep nothing.
std::size_t cost(const KeySpace::Work& work) {
  using enum StoreCommand;
  constexpr std::array kKeeping{
      set, multi_set, compare_set, add, append, queue_push, wait, barrier};
  const StoreCommand command = work.request.command;
  if (std::ranges::count(kKeeping, command) == 0) return 0;
  // A wait is also kept by key; a barrier is a value and a wait.
  const std::size_t copies = command == barrier ? 3 : command == wait ? 2 : 1;
  return copies * work.request_bytes + (command == add || command == barrier ? kDigits
                                        : command == queue_push              ? kQueueBytes
                                                                             : 0);
}

/// The capacity for a reply of so many bytes: values may grow between two steps, and the reply
/// should not be copied then.
std::size_t with_room_to_grow(std::size_t bytes) {
  return bytes + bytes / 4;
}

/// Calls `act` with the index of each `stride`th of `size` texts, from `next` on, until the step
/// should end. True: the last is done.
template <typename Act>
bool each_from(std::size_t& next,
               std::size_t size,
               std::size_t stride,
               const KeySpace::ShouldYield& should_yield,
               const Act& act) {
  while (next < size) {
    act(next);
    next += stride;
    if (next < size && should_yield()) return false;
  }
  return true;
}

/// Reads a number as the reference server does: by strtoll, so "12x" is 12. Nothing: no number.
std::optional<std::int64_t> read_integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || errno == ERANGE) return {};
  return number;
}

}  // namespace

KeySpace::Work::Work(StoreClientId who, StoreRequest what, Time when)
    : client(who), request(std::move(what)), begin(when) {
  request_bytes = 0;
  for (const std::string& text : request.texts)
    request_bytes += kEntryBytes + text.size();
}

KeySpace::StepResult KeySpace::step(Work& work, const ShouldYield& should_yield) {
  StepResult result;
  result.is_done = true;
  if (!work.has_begun) {
    // Free what the client's last wait left behind before its next one begins; otherwise leftovers
    // pile up.
    if (work.request.command == StoreCommand::wait ||
        work.request.command == StoreCommand::barrier) {
      forget(work.client);
      result.is_done = collect_garbage(should_yield);
    }
    if (!result.is_done || !begin(work)) return result;
    work.has_begun = true;
  }
  switch (work.request.command) {
    case StoreCommand::validate:  // only in the handshake
      work.refused = "a second VALIDATE";
      break;
    case StoreCommand::set:
    case StoreCommand::multi_set:
      result.is_done = put_all(work, result, should_yield);
      break;
    case StoreCommand::compare_set:
      compare_set(work, result);
      break;
    case StoreCommand::get:
    case StoreCommand::multi_get:
      result.is_done = get(work, should_yield);
      break;
    case StoreCommand::add:
      add(work, result);
      break;
    case StoreCommand::check:
      result.is_done = check(work, should_yield);
      break;
    case StoreCommand::wait:
      result.is_done = wait(work, should_yield);
      break;
    case StoreCommand::count_keys:
      put_u64(work.reply, values_.size());
      break;
    case StoreCommand::delete_key:
      delete_key(work);
      break;
    case StoreCommand::append:
      append(work, result);
      break;
    case StoreCommand::cancel_wait:
      // The release may already be on its way to the client, which reads until this 1 in any case.
      forget(work.client);
      put_byte(work.reply, 1);
      break;
    case StoreCommand::ping:
      put_u32(work.reply, static_cast<std::uint32_t>(work.request.number));
      break;
    case StoreCommand::queue_push:
      queue_push(work, result);
      break;
    case StoreCommand::queue_pop:
      queue_pop(work);
      break;
    case StoreCommand::queue_length:
      queue_length(work);
      break;
    case StoreCommand::list_keys:
      result.is_done = list_keys(work, should_yield);
      break;
    case StoreCommand::barrier:
      barrier(work, result);
      break;
  }
  return result;
}

/// Refuses, before any change, a request that cannot be kept as a whole.
bool KeySpace::begin(Work& work) const {
  const std::size_t more = cost(work);
  if (more > 0 && bytes_ + more > max_bytes_)
    work.refused = "the store is full (" + std::to_string(max_bytes_ >> 20) + " MiB)";
  return work.refused.empty();
}

std::string KeySpace::too_large() const {
  return "the reply would be larger than " + std::to_string(max_reply_bytes_ >> 20) + " MiB";
}

bool KeySpace::has(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

void KeySpace::set_value(const std::string& key, std::string value) {
  const auto [entry, is_new] = values_.try_emplace(key);
  if (is_new) listed_bytes_ += list_cost(key);
  if (!is_new) bytes_ -= cost(key, entry->second);
  bytes_ += cost(key, value);
  entry->second = std::move(value);
}

void KeySpace::put(const std::string& key, std::string value, StepResult& result) {
  set_value(key, std::move(value));
  wake_all(key, result);
}

bool KeySpace::put_all(Work& work, StepResult& result, const ShouldYield& should_yield) {
  std::vector<std::string>& texts = work.request.texts;
  return each_from(work.next, texts.size(), 2, should_yield, [&](std::size_t i) {
    work.request_bytes -= kEntryBytes + texts[i + 1].size();  // counted by the store from now on
    put(texts[i], std::move(texts[i + 1]), result);
  });
}

void KeySpace::compare_set(Work& work, StepResult& result) {
  const std::string& key = work.request.texts[0];
  const std::string& expected = work.request.texts[1];
  const std::string& desired = work.request.texts[2];
  const auto found = values_.find(key);
  // As in the reference server, a missing key counts as empty: an empty `expected` creates it. A
  // missing key with another `expected` is answered with `expected`.
  const std::string_view current =
      found == values_.end() ? std::string_view() : std::string_view(found->second);
  if (current == expected) {
    put_text(work.reply, desired);
    put(key, std::move(work.request.texts[2]), result);
  } else {
    put_text(work.reply, found == values_.end() ? std::string_view(expected) : current);
  }
}

/// Computes the size first, so that a reply that is too large is never made.
bool KeySpace::get(Work& work, const ShouldYield& should_yield) const {
  const std::vector<std::string>& keys = work.request.texts;
  const auto value_of = [&](std::size_t i) {
    const auto found = values_.find(keys[i]);
    return found == values_.end() ? std::string_view() : std::string_view(found->second);
  };
  const auto refuse = [&] {
    work.refused = too_large();
    work.next = keys.size();
  };
  if (!work.is_sized) {
    const bool is_done = each_from(work.next, keys.size(), 1, should_yield, [&](std::size_t i) {
      work.reply_bytes += sizeof(std::uint64_t) + value_of(i).size();
      if (work.reply_bytes > max_reply_bytes_) refuse();
    });
    if (!is_done) return false;
    if (!work.refused.empty()) return true;
    work.is_sized = true;
    work.next = 0;
    work.reply.reserve(with_room_to_grow(work.reply_bytes));
  }
  return each_from(work.next, keys.size(), 1, should_yield, [&](std::size_t i) {
    const std::string_view value = value_of(i);  // may have grown since
    if (work.reply.size() + sizeof(std::uint64_t) + value.size() > max_reply_bytes_) {
      refuse();
    } else {
      put_text(work.reply, value);
    }
  });
}

/// The number at the request's key, 0 without one, with `number` added. Nothing: refused, as the
/// value there is not a number.
std::optional<std::int64_t> KeySpace::sum_with(std::int64_t number, Work& work) const {
  const auto found = values_.find(work.request.texts[0]);
  const std::optional<std::int64_t> old =
      found == values_.end() ? std::optional<std::int64_t>(0) : read_integer(found->second);
  if (!old) {
    work.refused = "ADD or BARRIER at a key whose value is not a number";
    return {};
  }
  // Unsigned, so that an overflow wraps.
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(*old) +
                                   static_cast<std::uint64_t>(number));
}

void KeySpace::add(Work& work, StepResult& result) {
  const std::optional<std::int64_t> sum = sum_with(work.request.number, work);
  if (!sum) return;
  put_u64(work.reply, static_cast<std::uint64_t>(*sum));
  put(work.request.texts[0], std::to_string(*sum), result);
}

/// Counts the client at the key, then makes it wait. As in the reference server, counting wakes
/// nobody until the count is full. A full count, or any other command that sets the key, wakes all
/// that wait for it.
void KeySpace::barrier(Work& work, StepResult& result) {
  const std::optional<std::int64_t> count = sum_with(1, work);
  if (!count) return;
  std::string& key = work.request.texts[0];
  set_value(key, std::to_string(*count));
  if (*count >= work.request.number) {
    put_byte(work.reply, kReleased);
    wake_all(key, result);
    return;
  }
  Waiter& waiter = waiters_[work.client];
  waiter.since = work.begin;
  waiter.is_whole = true;
  add_missing_key(work.client, waiter, std::move(key));
}

bool KeySpace::check(Work& work, const ShouldYield& should_yield) const {
  const std::vector<std::string>& keys = work.request.texts;
  bool all = true;
  const bool is_done = each_from(work.next, keys.size(), 1, should_yield, [&](std::size_t i) {
    all = has(keys[i]);
    if (!all) work.next = keys.size();
  });
  if (is_done) put_byte(work.reply, all ? 0 : 1);
  return is_done;
}

bool KeySpace::wait(Work& work, const ShouldYield& should_yield) {
  std::vector<std::string>& keys = work.request.texts;
  Waiter& waiter = waiters_[work.client];
  waiter.since = work.begin;
  const bool is_done = each_from(work.next, keys.size(), 1, should_yield, [&](std::size_t i) {
    // A key that exists is not awaited, as only a new key wakes waiters.
    if (!has(keys[i])) add_missing_key(work.client, waiter, std::move(keys[i]));
  });
  if (!is_done) return false;
  waiter.is_whole = true;
  if (waiter.missing.empty()) {
    waiters_.erase(work.client);
    put_byte(work.reply, kReleased);
  }
  return true;
}

void KeySpace::add_missing_key(StoreClientId client, Waiter& waiter, std::string key) {
  std::map<Turn, StoreClientId>& list = awaited_[key];
  // A key that is named twice is awaited once.
  if (!list.empty() && waiter.missing.contains(list.rbegin()->first)) return;
  bytes_ += 2 * cost(key, "");
  list.emplace_hint(list.end(), next_turn_, client);
  waiter.missing.emplace_hint(waiter.missing.end(), next_turn_, std::move(key));
  ++next_turn_;
}

void KeySpace::delete_key(Work& work) {
  const std::string& key = work.request.texts[0];
  const auto found = values_.find(key);
  const bool is_there = found != values_.end();
  if (is_there) {
    bytes_ -= cost(key, found->second);
    listed_bytes_ -= list_cost(key);
    values_.erase(found);
  }
  put_u64(work.reply, is_there ? 1 : 0);
}

void KeySpace::append(Work& work, StepResult& result) {
  const std::string& key = work.request.texts[0];
  const std::string& more = work.request.texts[1];
  const auto found = values_.find(key);
  if (found == values_.end()) {
    put(key, more, result);
  } else if (found->second.size() + more.size() > kMaxAppendedBytes) {
    work.refused = "APPEND to a value beyond " + std::to_string(kMaxAppendedBytes >> 20) + " MiB";
  } else {
    bytes_ += more.size();
    found->second += more;
  }
}

void KeySpace::queue_push(Work& work, StepResult& result) {
  const std::string& key = work.request.texts[0];
  std::deque<std::string>& queue = queues_[key];
  bytes_ += cost(key, work.request.texts[1]) + (queue.empty() ? kQueueBytes : 0);
  queue.push_back(std::move(work.request.texts[1]));
  wake_one(key, result);
}

void KeySpace::queue_pop(Work& work) {
  const std::string& key = work.request.texts[0];
  const auto found = queues_.find(key);
  if (found == queues_.end()) {
    put_u64(work.reply, 0);
    return;
  }
  put_u64(work.reply, 1);
  put_text(work.reply, found->second.front());
  bytes_ -= cost(key, found->second.front());
  found->second.pop_front();
  if (!found->second.empty()) return;
  bytes_ -= kQueueBytes;
  queues_.erase(found);
}

void KeySpace::queue_length(Work& work) const {
  const auto found = queues_.find(work.request.texts[0]);
  put_u64(work.reply, found == queues_.end() ? 0 : found->second.size());
}

/// The number of keys stands first in the reply, but is known last.
bool KeySpace::list_keys(Work& work, const ShouldYield& should_yield) const {
  if (!work.is_sized) {
    if (sizeof(std::uint64_t) + listed_bytes_ > max_reply_bytes_) {
      work.refused = too_large();
      return true;
    }
    work.is_sized = true;
    work.reply.reserve(with_room_to_grow(sizeof(std::uint64_t) + listed_bytes_));
    put_u64(work.reply, 0);
  }
  auto entry = work.listed == 0 ? values_.begin() : values_.upper_bound(work.last_key);
  for (; entry != values_.end(); ++entry) {
    if (work.reply.size() + list_cost(entry->first) > max_reply_bytes_) {
      work.refused = too_large();
      return true;
    }
    put_text(work.reply, entry->first);
    ++work.listed;
    if (should_yield()) {
      work.last_key = entry->first;
      return false;
    }
  }
  std::string count;
  put_u64(count, work.listed);
  work.reply.replace(0, count.size(), count);
  return true;
}

/// A key that appears counts for all that wait for it, even if it is deleted again.
void KeySpace::wake_all(const std::string& key, StepResult& result) {
  auto list = awaited_.extract(key);
  if (list.empty()) return;
  for (const auto& [turn, client] : list.mapped())
    count_down(client, turn, key, result);
  bytes_ -= list.mapped().size() * cost(key, "");
}

/// An entry of a queue ends at most one wait, the oldest.
void KeySpace::wake_one(const std::string& key, StepResult& result) {
  const auto found = awaited_.find(key);
  if (found == awaited_.end()) return;
  bool ended = false;
  while (!ended && !found->second.empty()) {
    const auto [turn, client] = *found->second.begin();
    found->second.erase(turn);
    bytes_ -= cost(key, "");
    ended = count_down(client, turn, key, result);
  }
  if (found->second.empty()) awaited_.erase(found);
}

/// Removes one key from a client's wait. True: it was the last, so the wait is over.
bool KeySpace::count_down(StoreClientId client,
                          Turn turn,
                          const std::string& key,
                          StepResult& result) {
  const auto waiter = waiters_.find(client);
  if (waiter == waiters_.end() || waiter->second.missing.erase(turn) == 0) return false;
  bytes_ -= cost(key, "");
  if (!waiter->second.missing.empty() || !waiter->second.is_whole) return false;
  waiters_.erase(waiter);
  result.released.push_back(client);
  return true;
}

void KeySpace::forget(StoreClientId client) {
  auto waiter = waiters_.extract(client);
  if (!waiter.empty()) dead_waiters_.push_back(std::move(waiter.mapped()));
}

void KeySpace::remove_missing_key(Turn turn, const std::string& key) {
  bytes_ -= cost(key, "");
  const auto list = awaited_.find(key);
  if (list == awaited_.end() || list->second.erase(turn) == 0) return;  // the key has come since
  bytes_ -= cost(key, "");
  if (list->second.empty()) awaited_.erase(list);
}

bool KeySpace::collect_garbage(const ShouldYield& should_yield) {
  for (; !dead_waiters_.empty(); dead_waiters_.pop_back()) {
    std::map<Turn, std::string>& missing = dead_waiters_.back().missing;
    while (!missing.empty()) {
      const auto entry = missing.extract(missing.begin());
      remove_missing_key(entry.key(), entry.mapped());
      if (should_yield()) return false;
    }
  }
  return true;
}

bool KeySpace::clear(const ShouldYield& should_yield) {
  const auto drop = [&](auto& entries, auto&& last) {
    while (!entries.empty()) {
      entries.erase(last());
      if (should_yield()) return false;
    }
    return true;
  };
  while (!waiters_.empty())
    forget(waiters_.begin()->first);
  while (!queues_.empty()) {
    const auto first = queues_.begin();
    std::deque<std::string>& queue = first->second;
    if (!drop(queue, [&queue] { return std::prev(queue.end()); })) return false;
    queues_.erase(first);
  }
  return collect_garbage(should_yield) && drop(values_, [this] { return values_.begin(); }) &&
         drop(awaited_, [this] { return awaited_.begin(); });
}

std::vector<KeySpace::Wait> KeySpace::waits() const {
  std::vector<Wait> waits;
  for (const auto& [client, waiter] : waiters_) {
    if (waiter.missing.empty()) continue;  // its keys are still being checked
    const std::string& first = waiter.missing.begin()->second;
    waits.push_back(Wait{client, first, waiter.missing.size(), waiter.since});
  }
  return waits;
}

}  // namespace ddp::launcher
