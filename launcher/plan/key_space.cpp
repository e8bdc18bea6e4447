#include "launcher/plan/key_space.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace ddp::launcher {
namespace {

constexpr std::size_t kEntryBytes = 128;  // what a map's entry takes besides its texts, roughly
constexpr std::size_t kDigits = 20;       // of an i64, with its sign

std::size_t cost(const std::string& key, const std::string& value) {
  return kEntryBytes + key.size() + value.size();
}

/// What keeping all of a request may take; 0 for those that keep nothing.
std::size_t cost(const StoreRequest& request) {
  using enum StoreCommand;
  constexpr std::array kKeeping{set, multi_set, compare_set, add, append, queue_push, wait};
  const auto* const keeping = std::find(kKeeping.begin(), kKeeping.end(), request.command);
  if (keeping == kKeeping.end()) return 0;
  const std::size_t copies = request.command == wait ? 2 : 1;  // a wait is kept by key, too
  std::size_t bytes = request.command == add ? kDigits : 0;
  for (const std::string& text : request.texts)
    bytes += copies * (kEntryBytes + text.size());
  return bytes;
}

/// As the reference server reads a number: strtoll, so "12x" is 12. Nothing where there is none.
std::optional<std::int64_t> read_integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || errno == ERANGE) return {};
  return number;
}

}  // namespace

KeySpace::Answer KeySpace::take(StoreClientId client, StoreRequest request, Time now) {
  Answer answer;
  const std::vector<std::string>& texts = request.texts;
  const std::size_t more = cost(request);
  // Before anything is changed: a request is carried out whole, or not at all.
  if (more > 0 && bytes_ + more > max_bytes_) {
    answer.refused = "the store is full (" + std::to_string(max_bytes_ >> 20) + " MiB)";
    return answer;
  }
  switch (request.command) {
    case StoreCommand::validate:  // belongs to the handshake
      answer.refused = "a second VALIDATE";
      break;
    case StoreCommand::set:
    case StoreCommand::multi_set:
      for (std::size_t i = 0; i + 1 < texts.size(); i += 2)
        put(texts[i], std::move(request.texts[i + 1]), answer);
      break;
    case StoreCommand::compare_set:
      compare_set(request, answer);
      break;
    case StoreCommand::get:
    case StoreCommand::multi_get:
      get(texts, answer);
      break;
    case StoreCommand::add:
      add(request, answer);
      break;
    case StoreCommand::check:
      check(request, answer);
      break;
    case StoreCommand::wait:
      wait(client, request, now, answer);
      break;
    case StoreCommand::count_keys:
      put_u64(answer.reply, values_.size());
      break;
    case StoreCommand::delete_key:
      delete_key(texts[0], answer);
      break;
    case StoreCommand::append:
      append(request, answer);
      break;
    case StoreCommand::cancel_wait:
      // It may have crossed the release: the client reads until this 1 in any case.
      forget(client);
      put_byte(answer.reply, 1);
      break;
    case StoreCommand::ping:
      put_u32(answer.reply, static_cast<std::uint32_t>(request.number));
      break;
    case StoreCommand::queue_push:
      queue_push(request, answer);
      break;
    case StoreCommand::queue_pop:
      queue_pop(texts[0], answer);
      break;
    case StoreCommand::queue_length:
      queue_length(texts[0], answer);
      break;
    case StoreCommand::list_keys:
      list_keys(answer);
      break;
  }
  return answer;
}

std::string KeySpace::too_large() const {
  return "the reply would be larger than " + std::to_string(max_reply_bytes_ >> 20) + " MiB";
}

bool KeySpace::has(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

void KeySpace::put(const std::string& key, std::string value, Answer& answer) {
  const auto [entry, is_new] = values_.try_emplace(key);
  if (!is_new) bytes_ -= cost(key, entry->second);
  bytes_ += cost(key, value);
  entry->second = std::move(value);
  wake_all(key, answer);
}

void KeySpace::compare_set(StoreRequest& request, Answer& answer) {
  const std::string& key = request.texts[0];
  const std::string& expected = request.texts[1];
  const std::string& desired = request.texts[2];
  const auto found = values_.find(key);
  // A missing key counts as empty, so an empty `expected` creates it; and a missing key with
  // another `expected` is answered by that: both as the reference server has it.
  const std::string_view current =
      found == values_.end() ? std::string_view() : std::string_view(found->second);
  if (sizeof(std::uint64_t) + std::max(current.size(), expected.size()) > max_reply_bytes_) {
    answer.refused = too_large();  // APPEND makes values that are larger than any reply
  } else if (current == expected) {
    put_text(answer.reply, desired);
    put(key, std::move(request.texts[2]), answer);
  } else {
    put_text(answer.reply, found == values_.end() ? std::string_view(expected) : current);
  }
}

void KeySpace::get(const std::vector<std::string>& keys, Answer& answer) const {
  std::size_t size = 0;
  for (const std::string& key : keys) {
    const auto found = values_.find(key);
    size += sizeof(std::uint64_t) + (found == values_.end() ? 0 : found->second.size());
  }
  if (size > max_reply_bytes_) {
    answer.refused = too_large();
    return;
  }
  answer.reply.reserve(size);
  for (const std::string& key : keys) {
    const auto found = values_.find(key);
    put_text(answer.reply,
             found == values_.end() ? std::string_view() : std::string_view(found->second));
  }
}

void KeySpace::add(const StoreRequest& request, Answer& answer) {
  const std::string& key = request.texts[0];
  const auto found = values_.find(key);
  const std::optional<std::int64_t> old =
      found == values_.end() ? std::optional<std::int64_t>(0) : read_integer(found->second);
  if (!old) {
    answer.refused = "ADD to a key whose value is not a number";
    return;
  }
  // Unsigned, as a sum that does not fit wraps.
  const auto sum = static_cast<std::uint64_t>(*old) + static_cast<std::uint64_t>(request.number);
  put_u64(answer.reply, sum);
  put(key, std::to_string(static_cast<std::int64_t>(sum)), answer);
}

void KeySpace::check(const StoreRequest& request, Answer& answer) const {
  const auto& keys = request.texts;
  const bool all =
      std::all_of(keys.begin(), keys.end(), [this](const auto& key) { return has(key); });
  put_byte(answer.reply, all ? 0 : 1);
}

void KeySpace::wait(StoreClientId client, StoreRequest& request, Time now, Answer& answer) {
  forget(client);
  // What is there already is not waited for: only a key that appears wakes anybody.
  std::erase_if(request.texts, [this](const std::string& key) { return has(key); });
  if (request.texts.empty()) {
    put_byte(answer.reply, kReleased);
    return;
  }
  Waiter waiter;
  waiter.since = now;
  const Turn first = next_turn_;
  for (std::string& key : request.texts) {
    std::map<Turn, StoreClientId>& list = awaited_[key];
    // A key that is named twice is awaited once.
    if (!list.empty() && list.rbegin()->first >= first) continue;
    bytes_ += 2 * cost(key, "");
    list.emplace(next_turn_, client);
    waiter.missing.emplace_hint(waiter.missing.end(), next_turn_, std::move(key));
    ++next_turn_;
  }
  waiters_[client] = std::move(waiter);
}

void KeySpace::delete_key(const std::string& key, Answer& answer) {
  const auto found = values_.find(key);
  const bool is_there = found != values_.end();
  if (is_there) {
    bytes_ -= cost(key, found->second);
    values_.erase(found);
  }
  put_u64(answer.reply, is_there ? 1 : 0);
}

void KeySpace::append(const StoreRequest& request, Answer& answer) {
  const std::string& key = request.texts[0];
  const std::string& more = request.texts[1];
  const auto [entry, is_new] = values_.try_emplace(key);
  bytes_ += is_new ? cost(key, more) : more.size();
  entry->second += more;
  wake_all(key, answer);
}

void KeySpace::queue_push(StoreRequest& request, Answer& answer) {
  const std::string& key = request.texts[0];
  bytes_ += cost(key, request.texts[1]);
  queues_[key].push_back(std::move(request.texts[1]));
  wake_one(key, answer);
}

void KeySpace::queue_pop(const std::string& key, Answer& answer) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) {
    put_u64(answer.reply, 0);
    return;
  }
  put_u64(answer.reply, 1);
  put_text(answer.reply, found->second.front());
  bytes_ -= cost(key, found->second.front());
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
}

void KeySpace::queue_length(const std::string& key, Answer& answer) const {
  const auto found = queues_.find(key);
  put_u64(answer.reply, found == queues_.end() ? 0 : found->second.size());
}

void KeySpace::list_keys(Answer& answer) const {
  std::size_t size = sizeof(std::uint64_t);
  for (const auto& [key, value] : values_)
    size += sizeof(std::uint64_t) + key.size();
  if (size > max_reply_bytes_) {
    answer.refused = too_large();
    return;
  }
  answer.reply.reserve(size);
  put_u64(answer.reply, values_.size());
  for (const auto& [key, value] : values_)
    put_text(answer.reply, key);
}

/// A key that appears counts for everybody who waits for it, also if it is deleted again.
void KeySpace::wake_all(const std::string& key, Answer& answer) {
  auto list = awaited_.extract(key);
  if (list.empty()) return;
  for (const auto& [turn, client] : list.mapped())
    count_down(client, turn, answer);
  bytes_ -= list.mapped().size() * 2 * cost(key, "");
}

/// An entry of a queue is for one: it ends at most one wait, the oldest.
void KeySpace::wake_one(const std::string& key, Answer& answer) {
  const auto found = awaited_.find(key);
  if (found == awaited_.end()) return;
  bool ended = false;
  while (!ended && !found->second.empty()) {
    const auto [turn, client] = *found->second.begin();
    found->second.erase(turn);
    bytes_ -= 2 * cost(key, "");
    ended = count_down(client, turn, answer);
  }
  if (found->second.empty()) awaited_.erase(found);
}

bool KeySpace::count_down(StoreClientId client, Turn turn, Answer& answer) {
  const auto waiter = waiters_.find(client);
  waiter->second.missing.erase(turn);
  if (!waiter->second.missing.empty()) return false;
  waiters_.erase(waiter);
  answer.released.push_back(client);
  return true;
}

void KeySpace::forget(StoreClientId client) {
  const auto waiter = waiters_.extract(client);
  if (waiter.empty()) return;
  for (const auto& [turn, key] : waiter.mapped().missing) {
    const auto list = awaited_.find(key);
    list->second.erase(turn);
    bytes_ -= 2 * cost(key, "");
    if (list->second.empty()) awaited_.erase(list);
  }
}

std::vector<KeySpace::Wait> KeySpace::waits() const {
  std::vector<Wait> waits;
  for (const auto& [client, waiter] : waiters_) {
    const std::string& first = waiter.missing.begin()->second;
    waits.push_back(Wait{client, first, waiter.missing.size(), waiter.since});
  }
  return waits;
}

}  // namespace ddp::launcher
