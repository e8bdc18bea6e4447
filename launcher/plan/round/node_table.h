// Which nodes a job has: who may join, who has what node rank, who is missing. Pure: node 0's
// coordinator asks it, and tells it of anyone who comes and goes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/round/messages.h"

namespace ddp::launcher {

/// A node as node 0 knows it.
struct NodeEntry {
  int id = 0;                         // in order of joining; 0 is node 0 itself
  Hello hello;                        // with the node rank that was asked for
  std::optional<int> held_node_rank;  // in the newest round in which it had a place
  bool comes_last = false;            // others get a place first

  /// For people.
  [[nodiscard]] std::optional<int> shown_node_rank() const {
    return held_node_rank ? held_node_rank : hello.node_rank;
  }
};

class NodeTable {
 public:
  /// `own` is node 0's: all others must fit to it. `takes_spares`: nodes beyond the largest number
  /// wait for a place instead of being refused.
  NodeTable(Hello own, bool takes_spares);

  /// Who reads a refusal. Without a token anybody may ask, so a node that is sent away hears what
  /// differs and what it has said itself, not the run id and the job's values of ours.
  enum class Reader { ours, anyone };

  /// Why a node must not join, with both sides named; nothing when it may. Codes: 203, or the
  /// problem's own.
  [[nodiscard]] std::optional<Refusal> why_not(const Hello& hello,
                                               Reader reader = Reader::ours) const;

  /// What is done with a node that has come.
  struct Admission {
    bool joins = false;              // else it is answered, and sent away
    std::optional<Refusal> refusal;  // why it may not join
    std::optional<Refusal> told;     // the same, as the node hears it; nothing: it is welcome
  };
  [[nodiscard]] Admission consider(const Hello& hello, Reader reader) const;

  /// Precondition: it joins. Returns its id.
  int add(const Hello& hello);
  void remove(int id);
  /// From now on it gets a place only if one is left by the others. Not for node 0, without which
  /// there is no job.
  void put_last(int id);

  /// Gives every node that has come a place, as far as there are places: node ranks that were asked
  /// for first, then those held before, and the others fill the gaps in order of joining; the same
  /// with those that come last, in what is left. Gaps that are left, of nodes that are gone, are
  /// closed. Returns the ids of those with a place, by node rank.
  std::vector<int> assign_node_ranks();

  /// Nodes that have come, those without a place included.
  [[nodiscard]] int present() const { return static_cast<int>(entries_.size()); }
  /// Workers of all of them.
  [[nodiscard]] int workers() const;
  [[nodiscard]] bool is_full() const { return present() >= own().max_nodes; }
  [[nodiscard]] bool is_enough() const { return present() >= own().min_nodes; }
  [[nodiscard]] const Hello& own() const { return entries_.front().hello; }
  [[nodiscard]] const NodeEntry& find(int id) const;

  /// "1 of 2 nodes is here: node 0 (a); missing: node 1".
  [[nodiscard]] std::string who_is_missing() const;

 private:
  std::vector<NodeEntry> entries_;  // by id
  bool takes_spares_ = false;
  int next_id_ = 1;
};

/// Whether a refused node is a reason not to begin the job at all: it belongs to it, and cannot
/// execute the program.
[[nodiscard]] bool ends_job(const Hello& hello, const Refusal& refusal);

/// "node 1 (b)", or "b" for one without a node rank.
std::string name_node(std::optional<int> node_rank, const std::string& host);

/// "2", or "1:4".
std::string format_nodes(int min_nodes, int max_nodes);

}  // namespace ddp::launcher
