// The store of one round: values, queues, and who waits for what. Pure: a request goes in, its
// reply and the waits that it ends come out. A new round is a new key space.
// Values and queues are two maps: one name may be in both, and waits and checks see either.
// Source: the reference server's rules, TCPStoreLibUvBackend.cpp of torch 2.11.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/plan/store_protocol.h"

namespace ddp::launcher {

/// Of a connection; never used twice.
using StoreClientId = std::uint64_t;

class KeySpace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kMaxBytes = 1ULL << 30;  // of all that is kept
  static constexpr std::size_t kMaxReplyBytes = 256ULL << 20;

  /// What a job of so many ranks may keep, unless it is told otherwise: what a rank tells the
  /// others is a few KiB, so this is far above that, and far below what hurts a node. At most
  /// kMaxBytes.
  static constexpr std::size_t max_bytes_of(int world_size) {
    constexpr std::size_t kBase = 256ULL << 20;
    constexpr std::size_t kPerRank = 4ULL << 20;
    return std::min(kMaxBytes, kBase + kPerRank * static_cast<std::size_t>(world_size));
  }

  explicit KeySpace(std::size_t max_bytes = kMaxBytes, std::size_t max_reply_bytes = kMaxReplyBytes)
      : max_bytes_(max_bytes), max_reply_bytes_(max_reply_bytes) {}

  struct Answer {
    std::string reply;                    // to the client; may be empty
    std::vector<StoreClientId> released;  // their waits are over: each is to get kReleased
    std::string refused;                  // not empty: why the connection is to be closed
  };
  static constexpr std::uint8_t kReleased = 0;

  /// Carries `request` out. `now` is when a wait began.
  [[nodiscard]] Answer take(StoreClientId client, StoreRequest request, Time now);

  /// The client is gone, and its wait with it.
  void forget(StoreClientId client);

  struct Wait {
    StoreClientId client = 0;
    std::string key;  // one that has not come; of several, the first that was named
    std::size_t missing = 0;
    Time since;
  };
  /// Every wait that is not over, by client.
  [[nodiscard]] std::vector<Wait> waits() const;

  /// Memory that is kept, roughly.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  /// Of all waits for keys, in the order in which they began: never used twice.
  using Turn = std::uint64_t;
  struct Waiter {
    std::map<Turn, std::string> missing;  // the keys that have not come, each once
    Time since;
  };

  [[nodiscard]] std::string too_large() const;
  [[nodiscard]] bool has(const std::string& key) const;
  void put(const std::string& key, std::string value, Answer& answer);
  void compare_set(StoreRequest& request, Answer& answer);
  void get(const std::vector<std::string>& keys, Answer& answer) const;
  void add(const StoreRequest& request, Answer& answer);
  void check(const StoreRequest& request, Answer& answer) const;
  void wait(StoreClientId client, StoreRequest& request, Time now, Answer& answer);
  void delete_key(const std::string& key, Answer& answer);
  void append(const StoreRequest& request, Answer& answer);
  void queue_push(StoreRequest& request, Answer& answer);
  void queue_pop(const std::string& key, Answer& answer);
  void queue_length(const std::string& key, Answer& answer) const;
  void list_keys(Answer& answer) const;
  void wake_all(const std::string& key, Answer& answer);
  void wake_one(const std::string& key, Answer& answer);
  bool count_down(StoreClientId client, Turn turn, Answer& answer);

  std::size_t max_bytes_;
  std::size_t max_reply_bytes_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // none is empty
  // By key, oldest first. By turns, so that a wait is ended without a look at those of others: many
  // ranks wait for one key, and whoever asks for all of it again and again must keep nobody
  // waiting.
  std::unordered_map<std::string, std::map<Turn, StoreClientId>> awaited_;
  Turn next_turn_ = 0;
  std::map<StoreClientId, Waiter> waiters_;
};

}  // namespace ddp::launcher
