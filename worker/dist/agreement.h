// All ranks compare a text over the store, because a difference would later hang a collective or
// terminate the process.
// Promises: all ranks get the same result: they agree, or all throw the same message, which names
// the rank that differs or is missing. Each rank sends one text; rank 0 compares them and publishes
// the result.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "worker/plan/lost_peers.h"

namespace ddp::worker {

enum class TextRule { equal, distinct };

struct ComparedText {
  std::string key;           // unique in the store
  std::string what;          // "model", for messages
  std::string missing_text;  // "did not join": what a message says of a missing rank
  TextRule rule = TextRule::equal;
  std::string advice = "Start all ranks with the same job, data and release.";
};

struct ComparingRanks {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{0};  // for the texts of all ranks
  std::string timeout_name = TimeoutNames().join;
};

/// Blocks: until all ranks have sent their texts, at most the timeout. On an error rank 0 waits up
/// to 2 s more for the others to read it, because rank 0 may serve the store. Logs the missing
/// ranks every 10 s.
/// Errors: PeerError: 203 when the texts differ (TextRule::distinct: when two ranks have the same
/// text, not empty), 124 when a rank is missing, 202 when the store fails.
void agree(const ComparingRanks& ranks, const ComparedText& compared, const std::string& text);

/// The store's key of the text of `rank`; `key` is that of ComparedText. It exists once the rank
/// has sent it.
std::string text_key(const std::string& key, int rank);

}  // namespace ddp::worker
