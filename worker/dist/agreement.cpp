#include "worker/dist/agreement.h"

#include <poll.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/units.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/polling.h"
#include "worker/dist/round_over.h"
#include "worker/plan/text_differences.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kMinPause{1};
constexpr milliseconds kMaxPause{100};
constexpr std::chrono::seconds kFirstCheck{1};
constexpr std::chrono::seconds kCheckEvery{10};
constexpr std::chrono::seconds kReadWait{2};

std::string read_key(const ComparedText& compared, int rank) {
  return compared.key + "/read/" + std::to_string(rank);
}

/// Waits for keys by polling, because the store's own wait prints two lines when it times out.
/// Calls `check` after 1 s and then every 10 s; it ends the wait by returning true. Returns whether
/// all keys exist.
template <typename Check>
bool wait_for(c10d::Store& store,
              const std::vector<std::string>& keys,
              milliseconds timeout,
              Check check) {
  const Clock::time_point start = Clock::now();
  Clock::duration next_check = kFirstCheck;
  while (!store.check(keys)) {
    throw_if_round_over();
    const Clock::duration waited = Clock::now() - start;
    if (waited >= timeout) return false;
    if (waited >= next_check) {
      if (check(waited)) return false;
      next_check = next_check == kFirstCheck ? kCheckEvery : next_check + kCheckEvery;
    }
    const auto left = std::chrono::ceil<milliseconds>(timeout - waited);
    const milliseconds pause = pause_after(waited, kMinPause, kMaxPause);
    ::poll(nullptr, 0, static_cast<int>(std::min(pause, left).count()));
  }
  return true;
}

std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

struct Answers {
  std::vector<int> answered;
  std::vector<int> missing;
};

Answers find_answers(const ComparingRanks& ranks, const ComparedText& compared) {
  Answers found;
  for (int rank = 0; rank < ranks.world_size; ++rank) {
    const bool has_answered = ranks.store->check({text_key(compared.key, rank)});
    (has_answered ? found.answered : found.missing).push_back(rank);
  }
  return found;
}

void log_missing(const ComparingRanks& ranks,
                 const ComparedText& compared,
                 Clock::duration waited) {
  if (waited < kCheckEvery) return;
  const std::vector<int> missing = find_answers(ranks, compared).missing;
  if (missing.empty()) return;
  log::info("waiting for " + name_ranks(missing) + " of " + std::to_string(ranks.world_size));
}

// The result of a comparison: an exit code (0: all agree) and a line of text.
struct Finding {
  int code = exit_code::kOk;
  std::string text;
};

Finding describe_missing(const ComparingRanks& ranks, const ComparedText& compared) {
  std::vector<int> missing = find_answers(ranks, compared).missing;
  if (missing.empty()) missing.push_back(0);  // rank 0 has answered, but has not published a result
  return {exit_code::kTimeout,
          name_ranks(missing) + " of " + std::to_string(ranks.world_size) + " " +
              compared.missing_text + " within " + format_duration(ranks.timeout) + " (" +
              ranks.timeout_name + "). Is it running, and does it reach the store?"};
}

/// Compares the texts of the ranks that have answered.
Finding compare(const ComparingRanks& ranks, const ComparedText& compared) {
  const std::vector<int> answered = find_answers(ranks, compared).answered;
  std::vector<std::string> keys;
  for (const int rank : answered)
    keys.push_back(text_key(compared.key, rank));
  const std::vector<std::vector<std::uint8_t>> answers = ranks.store->multiGet(keys);
  std::map<int, std::string> texts;
  for (std::size_t i = 0; i < answered.size(); ++i)
    texts[answered[i]] = text_of(answers[i]);
  const std::string problem = compared.rule == TextRule::equal
                                  ? find_disagreement(compared.what, texts)
                                  : find_duplicates(compared.what, texts);
  if (problem.empty()) return {};
  return {exit_code::kRefused, problem + ". " + compared.advice};
}

/// Waits for all texts and compares them. Compares those that it has while it waits, too, because a
/// missing rank may have another world size and so wait elsewhere.
Finding gather(const ComparingRanks& ranks, const ComparedText& compared) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < ranks.world_size; ++rank)
    keys.push_back(text_key(compared.key, rank));
  const auto check = [&](Clock::duration waited) {
    log_missing(ranks, compared, waited);
    return compare(ranks, compared).code != exit_code::kOk;
  };
  const bool all_have_answered = wait_for(*ranks.store, keys, ranks.timeout, check);
  const Finding finding = compare(ranks, compared);
  if (finding.code != exit_code::kOk || all_have_answered) return finding;
  return describe_missing(ranks, compared);
}

Finding decide_as_rank_0(const ComparingRanks& ranks, const ComparedText& compared) {
  const Finding finding = gather(ranks, compared);
  ranks.store->set(compared.key + "/found", std::to_string(finding.code) + " " + finding.text);
  if (finding.code == exit_code::kOk) return finding;
  std::vector<std::string> reader_keys;
  for (const int rank : find_answers(ranks, compared).answered) {
    if (rank != 0) reader_keys.push_back(read_key(compared, rank));
  }
  // Whether all have read it does not matter: a rank may have ended.
  (void)wait_for(*ranks.store, reader_keys, kReadWait, [](Clock::duration) { return false; });
  return finding;
}

Finding read_decision(const ComparingRanks& ranks, const ComparedText& compared) {
  const std::string key = compared.key + "/found";
  const auto check = [&](Clock::duration waited) {
    log_missing(ranks, compared, waited);
    return false;
  };
  if (!wait_for(*ranks.store, {key}, ranks.timeout, check)) {
    const Finding finding = describe_missing(ranks, compared);
    // Last: rank 0, which may serve the store, waits for it.
    ranks.store->set(read_key(compared, ranks.rank), std::string("gave up"));
    return finding;
  }
  const std::string found = text_of(ranks.store->get(key));
  const std::size_t split = found.find(' ');
  const Finding finding{std::stoi(found.substr(0, split)), found.substr(split + 1)};
  if (finding.code != exit_code::kOk) {
    ranks.store->set(read_key(compared, ranks.rank), std::string("1"));
    // Trap: set() returns before the store has the value. The reply to a later request proves that
    // it has.
    (void)ranks.store->check({key});
  }
  return finding;
}

}  // namespace

std::string text_key(const std::string& key, int rank) {
  return key + "/" + std::to_string(rank);
}

void agree(const ComparingRanks& ranks, const ComparedText& compared, const std::string& text) {
  Finding finding;
  try {
    ranks.store->set(text_key(compared.key, ranks.rank), text);
    finding = ranks.rank == 0 ? decide_as_rank_0(ranks, compared) : read_decision(ranks, compared);
  } catch (const c10::Error& error) {
    throw PeerError("rank " + std::to_string(ranks.rank) +
                        " lost the store while the ranks compared their " + compared.what + ": " +
                        message_of(error),
                    exit_code::kRendezvous);
  }
  if (finding.code != exit_code::kOk) throw PeerError(finding.text, finding.code);
}

}  // namespace ddp::worker
