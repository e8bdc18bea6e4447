// The store of one round: values, queues, and which client waits for which keys. Pure: a request
// goes in; its reply and the waits that it ends come out. Each round has a new key space.
// A request is carried out in steps. Other requests are served between two steps, so that a large
// one delays nobody; later steps see their changes. Values and queues are two maps: one name may be
// in both, and waits and checks see either.
// Source: the reference server's rules, TCPStoreLibUvBackend.cpp of torch 2.11; those of BARRIER,
// as the server of torch 2.15 was seen to keep them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/store/store_protocol.h"

namespace ddp::launcher {

/// Identifies one connection; never used twice.
using StoreClientId = std::uint64_t;

class KeySpace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kMaxBytes = 1ULL << 30;  // of all values and queues
  static constexpr std::size_t kMaxReplyBytes = 128ULL << 20;
  static constexpr std::size_t kMaxAppendedBytes = 32ULL << 20;  // of a value made by APPEND

  /// The default limit for a job of so many ranks. A rank stores a few KiB, so this is far above
  /// what a job needs and far below what hurts a node. At most kMaxBytes.
  static constexpr std::size_t max_bytes_of(int world_size) {
    constexpr std::size_t kBase = 256ULL << 20;
    constexpr std::size_t kPerRank = 4ULL << 20;
    return std::min(kMaxBytes, kBase + kPerRank * static_cast<std::size_t>(world_size));
  }

  explicit KeySpace(std::size_t max_bytes = kMaxBytes, std::size_t max_reply_bytes = kMaxReplyBytes)
      : max_bytes_(max_bytes), max_reply_bytes_(max_reply_bytes) {}

  /// A request that is being carried out.
  struct Work {
    Work(StoreClientId who, StoreRequest what, Time when);

    /// Its memory in bytes, roughly.
    [[nodiscard]] std::size_t bytes() const { return request_bytes + reply.capacity(); }

    StoreClientId client;
    StoreRequest request;
    Time begin;
    std::size_t request_bytes;
    bool has_begun = false;
    std::size_t next = 0;         // next of the request's texts
    bool is_sized = false;        // whether reply_bytes is known
    std::size_t reply_bytes = 0;  // of MULTI_GET
    std::uint64_t listed = 0;     // keys listed by LIST_KEYS
    std::string last_key;         // the last key listed
    std::string reply;            // to the client, when done; may be empty
    std::string refused;          // not empty: why to close the connection
  };
  /// The result of a step.
  struct StepResult {
    bool is_done = false;                 // the reply is whole, or `refused` is set
    std::vector<StoreClientId> released;  // waits that are over; send each kReleased
  };
  static constexpr std::uint8_t kReleased = 0;
  /// Whether to end the step now. Called after each key or value.
  using ShouldYield = std::function<bool()>;

  /// Carries `work` on by at least one key or value. Precondition: it is not done.
  [[nodiscard]] StepResult step(Work& work, const ShouldYield& should_yield);

  /// Removes a client that is gone, and its wait.
  void forget(StoreClientId client);

  /// Whether no memory is left of waits that are over.
  [[nodiscard]] bool has_no_garbage() const { return dead_waiters_.empty(); }
  /// Frees memory of waits that are over. True: none is left.
  bool collect_garbage(const ShouldYield& should_yield);
  /// Frees everything. True: it is done.
  bool clear(const ShouldYield& should_yield);

  struct Wait {
    StoreClientId client = 0;
    std::string key;  // a key not set; of several, the first one named
    std::size_t missing = 0;
    Time since;
  };
  /// Every wait that is not over, by client.
  [[nodiscard]] std::vector<Wait> waits() const;

  /// Memory in use, roughly.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  /// Numbers waits for keys in the order in which they began; never used twice.
  using Turn = std::uint64_t;
  struct Waiter {
    std::map<Turn, std::string> missing;  // keys not set yet, each once
    Time since;
    bool is_whole = false;  // all keys of the request were checked
  };

  [[nodiscard]] std::string too_large() const;
  [[nodiscard]] bool has(const std::string& key) const;
  bool begin(Work& work) const;
  void set_value(const std::string& key, std::string value);
  void put(const std::string& key, std::string value, StepResult& result);
  std::optional<std::int64_t> sum_with(std::int64_t number, Work& work) const;
  bool put_all(Work& work, StepResult& result, const ShouldYield& should_yield);
  void compare_set(Work& work, StepResult& result);
  bool get(Work& work, const ShouldYield& should_yield) const;
  void add(Work& work, StepResult& result);
  void barrier(Work& work, StepResult& result);
  bool check(Work& work, const ShouldYield& should_yield) const;
  bool wait(Work& work, const ShouldYield& should_yield);
  void add_missing_key(StoreClientId client, Waiter& waiter, std::string key);
  void delete_key(Work& work);
  void append(Work& work, StepResult& result);
  void queue_push(Work& work, StepResult& result);
  void queue_pop(Work& work);
  void queue_length(Work& work) const;
  bool list_keys(Work& work, const ShouldYield& should_yield) const;
  void wake_all(const std::string& key, StepResult& result);
  void wake_one(const std::string& key, StepResult& result);
  bool count_down(StoreClientId client, Turn turn, const std::string& key, StepResult& result);
  void remove_missing_key(Turn turn, const std::string& key);

  std::size_t max_bytes_;
  std::size_t max_reply_bytes_;
  std::size_t bytes_ = 0;
  // Trees: LIST_KEYS can continue at a key, and an insertion moves nothing.
  std::map<std::string, std::string> values_;
  std::size_t listed_bytes_ = 0;                           // of the reply to LIST_KEYS
  std::map<std::string, std::deque<std::string>> queues_;  // none is empty
  // Waits by key, oldest first. Keyed by turn, so that one wait can be removed without a scan of
  // the others: many ranks wait for one key, and a client that repeats its wait must not slow the
  // rest.
  std::map<std::string, std::map<Turn, StoreClientId>> awaited_;
  Turn next_turn_ = 0;
  std::map<StoreClientId, Waiter> waiters_;
  std::vector<Waiter> dead_waiters_;  // waiters that are gone; awaited_ may still name them
};

}  // namespace ddp::launcher
