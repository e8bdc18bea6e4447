#include "launcher/plan/round/node_table.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "common/exit_code.h"
#include "common/text/join_words.h"
#include "launcher/plan/job_size.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMaxDifferences = 5;  // named in one refusal
constexpr std::size_t kMaxNames = 20;       // named in one line
constexpr std::size_t kLongestValue = 200;  // bytes of a value

/// Name and address: two hosts may share a name, and one host may have several addresses.
std::string host_of(const Hello& hello) {
  return hello.address.empty() ? hello.host : hello.host + ", " + hello.address;
}

std::string agent_of(const Hello& hello) {
  return host_of(hello) + ", pid " + std::to_string(hello.pid);
}

Refusal refuse(const std::string& text) {
  return Refusal{exit_code::kRefused, text};
}

/// Makes text of another node safe to print.
std::string shown(const std::string& text) {
  return plain_line(text, kLongestValue);
}

/// The value of a key, or "nothing" where a job file does not set it.
std::string value_of(const std::map<std::string, std::string>& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "nothing" : found->second;
}

std::optional<Refusal> compare_jobs(const Hello& hello,
                                    const Hello& own,
                                    const std::string& node,
                                    NodeTable::Reader reader) {
  const bool tells_ours = reader == NodeTable::Reader::ours;
  const std::string zero = name_node(0, host_of(own));
  if (hello.user_run_id != own.user_run_id) {
    return refuse(node + " says --rdzv-id " + shown(hello.user_run_id) + ", " + zero + " says " +
                  (tells_ours ? shown(own.user_run_id) : "another") +
                  ". Start both with the same id.");
  }
  const bool is_same_size = hello.min_nodes == own.min_nodes && hello.max_nodes == own.max_nodes;
  if (!is_same_size) {
    return refuse(node + " says --nnodes " + format_nodes(hello.min_nodes, hello.max_nodes) + ", " +
                  zero + " says " + format_nodes(own.min_nodes, own.max_nodes) +
                  ". Start both with the same number.");
  }
  std::map<std::string, std::string> all = own.job_keys;
  all.insert(hello.job_keys.begin(), hello.job_keys.end());
  std::string text;
  std::size_t differences = 0;
  for (const auto& [key, value] : all) {
    const std::string theirs = value_of(hello.job_keys, key);
    const std::string ours = value_of(own.job_keys, key);
    if (theirs == ours) continue;
    if (++differences > kMaxDifferences) continue;
    add_word(text,
             shown(key) + " is " + shown(theirs) + " on " + node + " and " +
                 (tells_ours ? shown(ours) : "something else") + " on " + zero,
             "; ");
  }
  if (differences == 0) return std::nullopt;
  if (differences > kMaxDifferences) {
    text += "; and " + std::to_string(differences - kMaxDifferences) + " more";
  }
  return refuse("not the same job: " + text + ". Start both with the same job file and overrides.");
}

}  // namespace

bool ends_job(const Hello& hello, const Refusal& refusal) {
  return !hello.is_question && hello.problem_code != 0 && refusal.code == hello.problem_code;
}

std::string name_node(std::optional<int> node_rank, const std::string& host) {
  return node_rank ? "node " + std::to_string(*node_rank) + " (" + host + ")" : host;
}

std::string format_nodes(int min_nodes, int max_nodes) {
  const std::string most = std::to_string(max_nodes);
  return min_nodes == max_nodes ? most : std::to_string(min_nodes) + ":" + most;
}

NodeTable::NodeTable(Hello own, bool takes_spares) : takes_spares_(takes_spares) {
  own.node_rank = 0;
  entries_.push_back(NodeEntry{0, std::move(own), std::nullopt});
}

const NodeEntry& NodeTable::find(int id) const {
  const auto found = std::ranges::find(entries_, id, &NodeEntry::id);
  assert(found != entries_.end());
  return *found;
}

std::optional<Refusal> NodeTable::why_not(const Hello& hello, Reader reader) const {
  const std::string node = name_node(hello.node_rank, host_of(hello));
  const std::string zero = name_node(0, host_of(own()));
  if (hello.protocol != own().protocol) {
    return refuse(node + " speaks protocol " + std::to_string(hello.protocol) + " (ddp-launch " +
                  hello.version + "), " + zero + " speaks " + std::to_string(own().protocol) +
                  " (ddp-launch " + own().version + "). Install the same version on all nodes.");
  }
  if (own().max_nodes == 1) {
    return refuse("the job of " + agent_of(own()) + " has one node, and no place for " +
                  host_of(hello) + ". Give another --master-port, or start it with --nnodes.");
  }
  if (hello.node_rank == 0) {
    return refuse("duplicate node rank 0: " + agent_of(own()) + " is node 0 of this job, and " +
                  agent_of(hello) + " was started as node 0 too. Did you mean --node-rank 1?");
  }
  // Compare the jobs before the node rank: ranks mean nothing to a node at the wrong port.
  if (auto refusal = compare_jobs(hello, own(), node, reader)) return refusal;
  if (hello.node_rank && (*hello.node_rank < 0 || *hello.node_rank >= own().max_nodes)) {
    return refuse(host_of(hello) + " says --node-rank " + std::to_string(*hello.node_rank) +
                  ", but the job of " + zero + " has " +
                  format_nodes(own().min_nodes, own().max_nodes) + " nodes: 0 to " +
                  std::to_string(own().max_nodes - 1) + ".");
  }
  for (const NodeEntry& entry : entries_) {
    if (!hello.node_rank || entry.hello.node_rank != hello.node_rank) continue;
    return refuse("duplicate node rank " + std::to_string(*hello.node_rank) + ": " +
                  agent_of(entry.hello) + " has it, and " + agent_of(hello) +
                  " was started with it too. Give each node its own --node-rank.");
  }
  // Only a node of this job gets this far. The job does not begin, and the node must end by the
  // same code.
  if (own().problem_code != 0) {
    const bool tells_ours = reader == Reader::ours;
    return Refusal{own().problem_code,
                   zero + (tells_ours ? ": " + own().problem : " cannot execute its program.")};
  }
  if (hello.problem_code != 0) return Refusal{hello.problem_code, node + ": " + hello.problem};
  if (is_full() && !takes_spares_) {
    return refuse("the job of " + zero + " has all its " + std::to_string(own().max_nodes) +
                  " nodes; there is no place for " + node + ".");
  }
  if (hello.nproc > kMaxWorkers - workers()) {
    return refuse("the job of " + zero + " has " + std::to_string(workers()) +
                  " workers; with the " + std::to_string(hello.nproc) + " of " + node +
                  " they would be more than " + std::to_string(kMaxWorkers) + ".");
  }
  return std::nullopt;
}

int NodeTable::workers() const {
  return std::accumulate(entries_.begin(), entries_.end(), 0, [](int sum, const NodeEntry& entry) {
    return sum + entry.hello.nproc;
  });
}

NodeTable::Admission NodeTable::consider(const Hello& hello, Reader reader) const {
  // Through address translation our own question may reach us.
  const bool is_ourselves = hello.is_question && hello.pid == own().pid && hello.host == own().host;
  Admission admission;
  if (!is_ourselves) admission.refusal = why_not(hello);
  if (admission.refusal) admission.answer = why_not(hello, reader);
  admission.joins = !admission.refusal && !hello.is_question;
  return admission;
}

int NodeTable::add(const Hello& hello) {
  entries_.push_back(NodeEntry{next_id_, hello, std::nullopt});
  return next_id_++;
}

void NodeTable::remove(int id) {
  std::erase_if(entries_, [id](const NodeEntry& entry) { return entry.id == id; });
}

void NodeTable::deprioritize(int id) {
  for (NodeEntry& entry : entries_)
    entry.is_deprioritized = entry.is_deprioritized || (entry.id == id && id != 0);
}

std::vector<int> NodeTable::assign_node_ranks() {
  // Three claims, the strongest first: the rank that the user gave, the rank of the last round (so
  // that no node moves for a spare), then any free rank in order of joining. Nodes with a broken
  // GPU come after all others, so if there is a spare, such a node gets no place.
  const auto places = static_cast<std::size_t>(own().max_nodes);
  std::vector<NodeEntry*> by_node_rank(places, nullptr);
  const auto take = [&by_node_rank](std::optional<int> rank, NodeEntry& entry) {
    const bool is_free = rank && by_node_rank[static_cast<std::size_t>(*rank)] == nullptr;
    if (is_free) by_node_rank[static_cast<std::size_t>(*rank)] = &entry;
    return is_free;
  };
  std::size_t gap = 0;
  for (const bool is_deprioritized : {false, true}) {
    std::vector<NodeEntry*> group;
    for (NodeEntry& entry : entries_)
      if (entry.is_deprioritized == is_deprioritized) group.push_back(&entry);
    std::erase_if(group, [&](NodeEntry* entry) { return take(entry->hello.node_rank, *entry); });
    std::erase_if(group, [&](NodeEntry* entry) { return take(entry->held_node_rank, *entry); });
    for (NodeEntry* const entry : group) {
      while (gap < places && by_node_rank[gap] != nullptr)
        ++gap;
      if (gap < places) by_node_rank[gap] = entry;
    }
  }
  for (NodeEntry& entry : entries_)
    entry.held_node_rank.reset();
  // Node ranks have no gaps: with fewer than max_nodes nodes, all above a gap move down.
  std::vector<int> ids;
  for (NodeEntry* const entry : by_node_rank) {
    if (entry == nullptr) continue;
    entry->held_node_rank = static_cast<int>(ids.size());
    ids.push_back(entry->id);
  }
  return ids;
}

std::string NodeTable::who_is_missing() const {
  std::string here;
  std::size_t named = 0;
  for (const NodeEntry& entry : entries_) {
    if (++named > kMaxNames) continue;
    add_word(here, name_node(entry.shown_node_rank(), entry.hello.host));
  }
  if (named > kMaxNames) here += ", ...";
  std::string missing;
  const bool has_joiners = std::ranges::any_of(
      entries_, [](const NodeEntry& entry) { return !entry.hello.node_rank.has_value(); });
  named = 0;
  for (int rank = 0; rank < own().min_nodes && !has_joiners; ++rank) {
    const bool is_here = std::ranges::any_of(
        entries_, [rank](const NodeEntry& entry) { return entry.hello.node_rank == rank; });
    if (is_here || ++named > kMaxNames) continue;
    add_word(missing, "node " + std::to_string(rank));
  }
  if (named > kMaxNames) missing += ", ...";
  const int wanted = own().min_nodes - present();
  if (missing.empty() && wanted > 0) missing = std::to_string(wanted) + " more";
  std::string text = std::to_string(present()) + " of " +
                     format_nodes(own().min_nodes, own().max_nodes) +
                     (present() == 1 ? " nodes is here: " : " nodes are here: ") + here;
  if (!missing.empty()) text += "; missing: " + missing;
  return text;
}

}  // namespace ddp::launcher
