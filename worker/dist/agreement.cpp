#include "worker/dist/agreement.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/error.h"
#include "common/program/log.h"
#include "common/text/units.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/polling.h"
#include "worker/dist/round_over.h"
#include "worker/plan/agreement.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShortestDelay{1};
constexpr milliseconds kLongestDelay{100};
constexpr std::chrono::seconds kFirstLook{1};
constexpr std::chrono::seconds kLookEvery{10};
constexpr std::chrono::seconds kReadWait{2};

std::string read_key(const ComparedText& compared, int rank) {
  return compared.key + "/read/" + std::to_string(rank);
}

/// Polls, because the store's own wait prints two lines when it times out. After 1 s, after 10 s
/// and then every 10 s it calls `probe`, which ends the wait by returning true.
template <typename Look>
bool wait_for(c10d::Store& store,
              const std::vector<std::string>& keys,
              milliseconds timeout,
              Look probe) {
  const Clock::time_point start = Clock::now();
  Clock::duration next_look = kFirstLook;
  while (!store.check(keys)) {
    throw_if_round_over();
    const Clock::duration waited = Clock::now() - start;
    if (waited >= timeout) return false;
    if (waited >= next_look) {
      if (probe(waited)) return false;
      next_look = next_look == kFirstLook ? kLookEvery : next_look + kLookEvery;
    }
    const auto left = std::chrono::ceil<milliseconds>(timeout - waited);
    const milliseconds delay = pause_after(waited, kShortestDelay, kLongestDelay);
    ::poll(nullptr, 0, static_cast<int>(std::min(delay, left).count()));
  }
  return true;
}

std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

struct Answered {
  std::vector<int> here;
  std::vector<int> missing;
};

Answered look_around(const Ranks& ranks, const ComparedText& compared) {
  Answered found;
  for (int rank = 0; rank < ranks.world_size; ++rank) {
    const bool is_here = ranks.store->check({answer_key(compared.key, rank)});
    (is_here ? found.here : found.missing).push_back(rank);
  }
  return found;
}

void name_missing(const Ranks& ranks, const ComparedText& compared, Clock::duration waited) {
  if (waited < kLookEvery) return;
  const std::vector<int> missing = look_around(ranks, compared).missing;
  if (missing.empty()) return;
  log::info("waiting for " + name_ranks(missing) + " of " + std::to_string(ranks.world_size));
}

// Rank 0's result, as the store holds it: an exit code (0: all agree) and a line of text.
struct Finding {
  int code = exit_code::kOk;
  std::string text;
};

Finding absence(const Ranks& ranks, const ComparedText& compared) {
  std::vector<int> missing = look_around(ranks, compared).missing;
  if (missing.empty()) missing.push_back(0);  // all have answered, but nobody compared
  return {exit_code::kTimeout,
          name_ranks(missing) + " of " + std::to_string(ranks.world_size) + " " + compared.absence +
              " within " + format_duration(ranks.timeout) + " (" + ranks.timeout_name +
              "). Is it running, and does it reach the store?"};
}

/// Compares the texts of the ranks that have answered.
Finding compare(const Ranks& ranks, const ComparedText& compared) {
  const std::vector<int> here = look_around(ranks, compared).here;
  std::vector<std::string> keys;
  for (const int rank : here)
    keys.push_back(answer_key(compared.key, rank));
  const std::vector<std::vector<std::uint8_t>> answers = ranks.store->multiGet(keys);
  std::map<int, std::string> texts;
  for (std::size_t i = 0; i < here.size(); ++i)
    texts[here[i]] = text_of(answers[i]);
  const std::string problem = compared.rule == Rule::equal ? find_disagreement(compared.what, texts)
                                                           : find_repetition(compared.what, texts);
  if (problem.empty()) return {};
  return {exit_code::kRefused, problem + ". " + compared.advice};
}

/// Waits for all answers. Compares those that have come while it waits, too: a missing rank may be
/// waiting with another world size.
Finding gather(const Ranks& ranks, const ComparedText& compared) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < ranks.world_size; ++rank)
    keys.push_back(answer_key(compared.key, rank));
  const auto probe = [&](Clock::duration waited) {
    name_missing(ranks, compared, waited);
    return compare(ranks, compared).code != exit_code::kOk;
  };
  const bool all_are_here = wait_for(*ranks.store, keys, ranks.timeout, probe);
  const Finding finding = compare(ranks, compared);
  if (finding.code != exit_code::kOk || all_are_here) return finding;
  return absence(ranks, compared);
}

Finding lead(const Ranks& ranks, const ComparedText& compared) {
  const Finding finding = gather(ranks, compared);
  ranks.store->set(compared.key + "/found", std::to_string(finding.code) + " " + finding.text);
  if (finding.code == exit_code::kOk) return finding;
  std::vector<std::string> readers;
  for (const int rank : look_around(ranks, compared).here) {
    if (rank != 0) readers.push_back(read_key(compared, rank));
  }
  // The result does not matter: a reader may have ended without reading.
  (void)wait_for(*ranks.store, readers, kReadWait, [](Clock::duration) { return false; });
  return finding;
}

Finding follow(const Ranks& ranks, const ComparedText& compared) {
  const std::string key = compared.key + "/found";
  const auto probe = [&](Clock::duration waited) {
    name_missing(ranks, compared, waited);
    return false;
  };
  if (!wait_for(*ranks.store, {key}, ranks.timeout, probe)) {
    ranks.store->set(read_key(compared, ranks.rank), std::string("gave up"));
    return absence(ranks, compared);
  }
  const std::string found = text_of(ranks.store->get(key));
  const std::size_t split = found.find(' ');
  const Finding finding{std::stoi(found.substr(0, split)), found.substr(split + 1)};
  if (finding.code != exit_code::kOk) {
    ranks.store->set(read_key(compared, ranks.rank), std::string("1"));
    // Trap: set() returns before the store has the value. The answer to a later request proves that
    // it does.
    (void)ranks.store->check({key});
  }
  return finding;
}

}  // namespace

std::string answer_key(const std::string& question_key, int rank) {
  return question_key + "/" + std::to_string(rank);
}

void agree(const Ranks& ranks, const ComparedText& compared, const std::string& text) {
  Finding finding;
  try {
    ranks.store->set(answer_key(compared.key, ranks.rank), text);
    finding = ranks.rank == 0 ? lead(ranks, compared) : follow(ranks, compared);
  } catch (const c10::Error& error) {
    throw PeerError("rank " + std::to_string(ranks.rank) +
                        " lost the store while the ranks compared their " + compared.what + ": " +
                        message_of(error),
                    exit_code::kRendezvous);
  }
  if (finding.code != exit_code::kOk) throw PeerError(finding.text, finding.code);
}

}  // namespace ddp::worker
