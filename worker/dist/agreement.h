// All ranks compare a text over the store, before a difference could hang a collective or terminate
// the process.
// Promises: all ranks end alike, rank 0 included: they agree, or throw the same message, which
// names the rank that differs or is missing. Cost: one text per rank. Rank 0 compares them all and
// publishes the result.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "worker/plan/lost_peers.h"

namespace ddp::worker {

enum class Rule { equal, distinct };

struct ComparedText {
  std::string key;      // unique in the store
  std::string what;     // "model", for messages
  std::string absence;  // "did not join", for a rank that does not answer
  Rule rule = Rule::equal;
  std::string advice = "Start all ranks with the same job, data and release.";
};

struct Ranks {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{0};  // until the last rank has answered
  std::string timeout_name = TimeoutNames().join;
};

/// Blocks: until all ranks have answered, at most the timeout. On an error rank 0 waits up to 2 s
/// longer for the others to read it, because rank 0 may serve the store. Every 10 s one line names
/// the missing ranks.
/// Errors: PeerError: 203 when `text` is not the same on all ranks (Rule::distinct: when two ranks
/// have the same one, not empty), 124 when a rank does not answer, 202 when the store fails.
void agree(const Ranks& ranks, const ComparedText& compared, const std::string& text);

/// Key in the store that exists once `rank` has answered `question_key`.
std::string answer_key(const std::string& question_key, int rank);

}  // namespace ddp::worker
