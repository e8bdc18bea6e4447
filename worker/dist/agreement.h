// All ranks compare a text over the store, before a collective could hang or terminate on what they
// differ in.
// Promises: every rank ends alike: by agreeing, or by the same message, which names the odd or the
// missing rank; rank 0 too. It costs one text per rank, not one per pair: rank 0 compares, and
// says what it found.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "worker/plan/lost_peers.h"

namespace ddp::worker {

enum class Rule { equal, distinct };

struct ComparedText {
  std::string key;      // of its own in the store
  std::string what;     // "model", for people
  std::string absence;  // "did not join": what is said of a rank that does not answer
  Rule rule = Rule::equal;
  std::string advice = "Start all ranks with the same job, data and release.";
};

struct Ranks {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{0};  // for the last of them to answer
  std::string timeout_name = TimeoutNames().join;
};

/// Blocks: until all ranks have answered, at most the timeout (rank 0 a little longer where it ends
/// in an error, so that the others can read it: it may serve the store). Every 10 s one line says
/// who is missing. Errors: PeerError: 203 when `text` is not the same on all ranks
/// (or, by the rule, is the same on two and not empty), 124 when one
/// does not answer, 202 when the store fails.
void agree(const Ranks& ranks, const ComparedText& compared, const std::string& text);

/// Of the store: there once that rank has answered under that key.
std::string answer_key(const std::string& question_key, int rank);

}  // namespace ddp::worker
