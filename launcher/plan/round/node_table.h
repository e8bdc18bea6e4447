// The nodes of a job: which may join, which has which node rank, which are missing. Pure: node 0's
// coordinator reports nodes that come and go.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/round/messages.h"

namespace ddp::launcher {

/// A node as node 0 knows it.
struct NodeEntry {
  int id = 0;                         // in order of joining; 0 is node 0 itself
  Hello hello;                        // with the node rank that it asked for
  std::optional<int> held_node_rank;  // in its newest round
  bool is_deprioritized = false;      // all others get a place first

  /// For people.
  [[nodiscard]] std::optional<int> shown_node_rank() const {
    return held_node_rank ? held_node_rank : hello.node_rank;
  }
};

class NodeTable {
 public:
  /// `own` is node 0's; all others must match it. `takes_spares`: nodes beyond max_nodes wait for a
  /// place and are not refused.
  NodeTable(Hello own, bool takes_spares);

  /// The reader of a refusal. Without a token anyone may ask to join. So a refused node learns what
  /// differs and what it said itself, but not our run id or job values.
  enum class Reader { ours, anyone };

  /// Why a node must not join, with both sides named. Nothing: it may. Codes: 203, or that of the
  /// problem which keeps a node from executing the program.
  [[nodiscard]] std::optional<Refusal> why_not(const Hello& hello,
                                               Reader reader = Reader::ours) const;

  /// What to do with a node that asks to join.
  struct Admission {
    bool joins = false;              // else it is answered and disconnected
    std::optional<Refusal> refusal;  // why it may not join
    std::optional<Refusal> answer;   // the same, as sent to the node; nothing: Welcome
  };
  [[nodiscard]] Admission consider(const Hello& hello, Reader reader) const;

  /// Precondition: it joins. Returns its id.
  int add(const Hello& hello);
  void remove(int id);
  /// From now on the node gets a place only after all others. Not for node 0, without which there
  /// is no job.
  void deprioritize(int id);

  /// Gives the nodes places, as far as there are any: first by the node rank that a node asked for,
  /// then by the one that it held, then in order of joining. Nodes that come last take what is left
  /// by the same rules. Then gaps are closed. Returns the ids of nodes with a place, by node rank.
  std::vector<int> assign_node_ranks();

  /// Nodes that have joined, with or without a place.
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

/// Whether this refusal keeps the whole job from beginning: the node belongs to the job and cannot
/// execute the program.
[[nodiscard]] bool ends_job(const Hello& hello, const Refusal& refusal);

/// "node 1 (b)", or "b" for one without a node rank.
std::string name_node(std::optional<int> node_rank, const std::string& host);

/// "2", or "1:4".
std::string format_nodes(int min_nodes, int max_nodes);

}  // namespace ddp::launcher
