#include "worker/train/data_loading.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <system_error>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/job/job_rules.h"
#include "common/node/identity.h"
#include "common/text/join_words.h"
#include "common/text/parse_whole.h"
#include "worker/data/loading/cached_source.h"
#include "worker/data/sets/memory_source.h"
#include "worker/data/sets/shared_set.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/polling.h"
#include "worker/dist/process_files.h"
#include "worker/dist/round_over.h"
#include "worker/train/failure/uncaught.h"
#include "worker/train/reported_error.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

// Enough for slow data sets; a lost rank is noticed much earlier.
constexpr std::chrono::hours kLoadLimit{6};
constexpr std::chrono::milliseconds kMinPoll{2};
constexpr std::chrono::milliseconds kMaxPoll{200};

constexpr const char* kFailed = "data/failed";
constexpr const char* kNotShared = "own";  // instead of a path: nothing is shared, each rank loads

/// Equal on ranks that can open each other's files in /proc and load the same data.
std::string node_data_id(const DataJob& job) {
  std::error_code ignored;
  const auto processes = std::filesystem::read_symlink("/proc/self/ns/pid", ignored);
  std::string id = host_name() + " " + processes.string() + " " + std::to_string(::getuid()) + " " +
                   job.name + " " + std::to_string(job.seed);
  for (const auto& size : {job.train_size, job.test_size})
    id += " " + std::to_string(size.value_or(0));
  // Ranks with another root load their own data, which may differ (the ranks compare it later).
  return id + " " + std::filesystem::absolute(job.root, ignored).string();
}

/// Waits for a condition in the store, and keeps the progress page alive. Errors: PeerError after
/// kLoadLimit, or when the round is over; those of `has_data`.
void wait_until(const std::function<bool()>& has_data,
                const std::string& what,
                ProgressPage& page) {
  const Clock::time_point begin = Clock::now();
  while (!has_data()) {
    throw_if_round_over();
    const Clock::duration waited = Clock::now() - begin;
    if (waited > kLoadLimit)
      throw PeerError(what + " after " + std::to_string(kLoadLimit.count()) + " h",
                      exit_code::kTimeout);
    touch(page);
    const std::chrono::milliseconds pause = pause_after(waited, kMinPoll, kMaxPoll);
    ::poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

/// False for a zombie, too: its parent may be too busy to wait for it.
bool is_running(const std::string& pid) {
  const std::vector<std::string> stat = process_stat(parse_whole<int>(pid).value_or(0));
  return !stat.empty() && stat[0] != "Z" && stat[0] != "X";
}

std::string rank_line(int rank) {
  return std::to_string(rank) + " " + std::to_string(::getpid()) + "\n";
}

/// Makes this rank the leader of its node if there is none yet. Returns whether it is the leader.
bool claim_leadership(c10d::Store& store, const std::string& node, int rank) {
  const std::string mine = rank_line(rank);
  return store.compareSet("data/maker/" + node, std::string(), mine) == mine;
}

/// Coordinates loading on a node by the store: one rank, the leader, loads first.
class NodeLoading {
 public:
  NodeLoading(c10d::Store& store, ProgressPage& page, const DataJob& job, int rank)
      : store_(store), page_(page), node_(node_data_id(job)) {
    const std::string mine = rank_line(rank);
    store_.append("data/ranks/" + node_, {mine.begin(), mine.end()});
    is_leader_ = claim_leadership(store_, node_, rank);
  }

  [[nodiscard]] bool is_leader() const { return is_leader_; }
  void publish(const std::string& where) { store_.set("data/where/" + node_, where); }
  /// Waits for the leader's publish(): a path, or kNotShared. Errors: PeerError when a rank of this
  /// node has ended.
  std::string await_leader() {
    const std::string key = "data/where/" + node_;
    wait_until(
        [&] {
          if (store_.check({key})) return true;
          require_all_run();
          return false;
        },
        "the rank that loads the data of this node has not done so",
        page_);
    return store_.get_to_str(key);
  }
  /// Checks that all ranks of this node that have begun to load are still running, which nobody
  /// else does without a launcher. Errors: PeerError.
  void require_all_run() {
    std::istringstream lines(store_.get_to_str("data/ranks/" + node_));
    for (std::string rank, pid; lines >> rank >> pid;) {
      if (!is_running(pid))
        throw PeerError("rank " + rank + " (pid " + pid +
                        ") has ended before all ranks had their data");
    }
  }

 private:
  c10d::Store& store_;
  ProgressPage& page_;
  std::string node_;
  bool is_leader_ = false;
};

/// The arguments of loading on one rank.
struct Loading {
  const Registry& registry;
  const DataJob& job;
  bool logs = false;      // rank 0 logs for all
  bool is_leader = true;  // of its node
};

DataRequest request_for(const Loading& loading) {
  const DataJob& job = loading.job;
  DataRequest request;
  request.name = job.name;
  request.root = job.root;
  request.seed = job.seed;
  request.train_size = job.train_size;
  request.test_size = job.test_size;
  request.args = job.args;
  request.image_size = job.image_size;
  request.background = job.background;
  request.max_bad = job.max_bad;
  // Augmentations may use any part of an image at full size.
  if (job.augment.empty()) request.train_at_least = fitted_side(job.image_size);
  if (job.cache_labels)
    request.label_cache = loading.is_leader ? LabelCacheUse::write : LabelCacheUse::read;
  return request;
}

/// Warns about keys that a user's own data set ignores. For built-in sets, the job file's reference
/// says which keys they read.
void warn_of_ignored_keys(const Loading& loading, const DataRequest& request, bool is_in_memory) {
  if (!loading.logs || is_built_in("data.name", loading.job.name)) return;
  const std::string set = " is without effect: the data set " + loading.job.name;
  for (const std::string& key : ignored_keys(request))
    log::warning(key + set + " does not read it");
  if (is_in_memory && loading.job.cache > 0)
    log::warning("data.cache" + set + " is in memory anyway");
}

/// Errors: UsageError.
DataSet read_set(const Loading& loading) try {
  const DataRequest request = request_for(loading);
  DataSet set = loading.registry.data_sets.at(loading.job.name)(request);
  request.args.require_all_read(loading.job.name);
  warn_of_ignored_keys(loading, request, /*is_in_memory=*/true);
  return set;
} catch (const c10::Error& error) {
  throw_as_user_code_error(error);
}

/// Errors: UsageError.
Sources open_sources(const Loading& loading) try {
  const DataJob& job = loading.job;
  const DataRequest request = request_for(loading);
  Sources sources = loading.registry.sources.at(job.name)(request);
  request.args.require_all_read(job.name);
  warn_of_ignored_keys(loading, request, sources.train->facts().is_in_memory);
  if (job.cache > 0 && !sources.train->facts().is_in_memory) {
    sources.train = std::make_shared<CachedSource>(std::move(sources.train),
                                                   static_cast<std::size_t>(job.cache));
  }
  return sources;
} catch (const c10::Error& error) {
  throw_as_user_code_error(error);
}

/// Loads the data for this rank only. Errors: UsageError.
Sources load_unshared(const Loading& loading) {
  return loading.registry.data_sets.contains(loading.job.name) ? make_sources(read_set(loading))
                                                               : open_sources(loading);
}

/// True for built-in sets. A user's own set may differ between ranks.
bool is_shareable(const Registry& registry, const DataJob& job) {
  const auto* const read =
      registry.data_sets.at(job.name).target<DataSet (*)(const DataRequest&)>();
  return read != nullptr && *read == load_data_set;
}

/// Copies the set into shared memory; null when there is not enough.
std::unique_ptr<SharedSet> copy_to_shared_memory(const DataSet& set) {
  try {
    return std::make_unique<SharedSet>(set);
  } catch (const SystemError& error) {
    log::warning(std::string(error.what()) + ": each rank of this node keeps a copy of its own");
    return {};
  }
}

/// Opens the shared memory of another rank; null when that is not possible, as across containers.
std::unique_ptr<SharedSet> open_shared(const std::string& path) {
  try {
    return std::make_unique<SharedSet>(std::filesystem::path(path));
  } catch (const SystemError&) {
    return {};
  }
}

/// Moves the shared set into `data`. False when there is none, or it cannot be mapped.
bool adopt_shared(std::unique_ptr<SharedSet> shared, LoadedData& data) {
  if (!shared) return false;
  try {
    data.sources = map_shared_set(shared->path());
  } catch (const SystemError&) {
    return false;
  }
  data.shared = std::move(shared);
  return true;
}

/// On the leader: loads the data, into shared memory if that is possible. Errors: UsageError.
void load_for_node(const Loading& loading, LoadedData& data) {
  if (!loading.registry.data_sets.contains(loading.job.name)) {
    data.sources = open_sources(loading);
    return;
  }
  DataSet set = read_set(loading);
  std::unique_ptr<SharedSet> shared;
  if (is_shareable(loading.registry, loading.job)) shared = copy_to_shared_memory(set);
  if (!adopt_shared(std::move(shared), data)) data.sources = make_sources(std::move(set));
}

/// Loads the data on one rank of several: leader first. Errors: UsageError; PeerError.
void load_on_node(const Loading& loading, NodeLoading& node, LoadedData& data) {
  const bool has_data = data.sources.train != nullptr;
  if (node.is_leader()) {
    // The other ranks must not wait for a leader that has failed.
    try {
      if (!has_data) load_for_node(loading, data);
    } catch (...) {
      node.publish(kNotShared);
      throw;
    }
    node.publish(data.shared ? data.shared->path().string() : kNotShared);
  } else if (!has_data) {
    const std::string path = node.await_leader();
    if (path == kNotShared || !adopt_shared(open_shared(path), data))
      data.sources = load_unshared(loading);
  }
}

/// Returns the problem, or "". Errors: PeerError.
std::string load(const Registry& registry,
                 const DataJob& job,
                 Group& group,
                 ProgressPage& page,
                 LoadedData& data) {
  Loading loading{registry, job, group.is_root()};
  c10d::Store* const store = group.store();
  if (store == nullptr) {
    return problem_of([&] { data.sources = load_unshared(loading); });
  }
  NodeLoading node(*store, page, job, group.rank());
  loading.is_leader = node.is_leader();
  std::string problem;
  try {
    problem = problem_of([&] { load_on_node(loading, node, data); });
  } catch (const std::exception& error) {
    // The caller's fail_together() will not be reached, so tell the others not to wait for this
    // rank.
    store->set(
        kFailed,
        "rank " + std::to_string(group.rank()) + " cannot load its data: " + message_of(error));
    throw;
  }
  store->add("data/loaded", 1);
  const auto is_complete = [&] {
    if (store->check({kFailed})) throw PeerError(store->get_to_str(kFailed));
    if (store->add("data/loaded", 0) == group.world_size()) return true;
    node.require_all_run();
    return false;
  };
  wait_until(is_complete, "some ranks have not loaded their data", page);
  return problem;
}

}  // namespace

void offer_data(const DataJob& job, Group& group, const LoadedData& data) {
  if (group.store() == nullptr || data.sources.train == nullptr) return;
  (void)claim_leadership(*group.store(), node_data_id(job), group.rank());
}

void load_data(const Registry& registry,
               const DataJob& job,
               Group& group,
               ProgressPage& page,
               LoadedData& data) {
  fail_together(group, load(registry, job, group, page, data));
}

std::string describe_data(const Sources& data) {
  std::string text;
  for (const Source* const source : {data.train.get(), data.test.get()}) {
    const DataFacts& facts = source->facts();
    text += facts.name + ": " + std::to_string(facts.count) +
            (facts.classes > 0 ? " images of " : " samples of ") + shape_text(facts.shape);
    if (facts.classes > 0) text += " in " + std::to_string(facts.classes) + " classes";
    if (facts.has_boxes) text += ", " + std::to_string(facts.boxes) + " boxes";
    if (!facts.digest.empty())
      text += (facts.is_in_memory ? ", contents " : ", files ") + facts.digest;
    text += "\n";
  }
  return text;
}

std::string describe_left_out(const Sources& data) {
  std::string text;
  for (const Source* const source : {data.train.get(), data.test.get()}) {
    const DataFacts& facts = source->facts();
    if (facts.left_out == 0) continue;
    add_word(text, std::to_string(facts.left_out) + " of " + facts.name);
  }
  if (text.empty()) return text;
  return "files left out: " + text +
         "; they are hidden, beside the folders of classes, or not .jpg, .jpeg, .png or .webp";
}

void require_sizes(const DataJob& job, const Sources& data) {
  const auto require =
      [](const char* key, const std::optional<std::int64_t>& wanted, const DataFacts& facts) {
        if (!wanted || *wanted == facts.count) return;
        throw UsageError(std::string(key) + ": the job asks for " + std::to_string(*wanted) +
                         " samples, and " + facts.name + " has " + std::to_string(facts.count) +
                         ". This data set does not obey the key: remove it.");
      };
  require("data.train_size", job.train_size, data.train->facts());
  require("data.test_size", job.test_size, data.test->facts());
}

}  // namespace ddp::worker
