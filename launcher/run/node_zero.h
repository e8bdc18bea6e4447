// Node 0 as the agent of a node sees it: events go to it, commands come from it. On node 0 itself
// it is the coordinator, on other nodes the link to node 0's agent (run/remote_node_zero).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/plan/hang/slow_rank.h"
#include "launcher/plan/round/messages.h"

namespace ddp::launcher {

class NodeZero {
 public:
  /// Takes a command of node 0, in the agent's loop. False: the command makes no sense in this
  /// node's state, so its sender is not our node 0.
  using NoteCommand = std::function<bool(const NodeCommand&)>;
  /// Why this node is fenced: the agent did not run for so long. Nothing: the agent has run all the
  /// time.
  using WhySlept = std::function<std::optional<std::string>()>;

  NodeZero() = default;
  NodeZero(const NodeZero&) = delete;
  NodeZero& operator=(const NodeZero&) = delete;
  virtual ~NodeZero() = default;

  /// Commands come from now on, until the EndJob.
  virtual void start() = 0;

  virtual void send_event(const NodeEvent& event) = 0;
  virtual void reply(const HeartbeatReply& reply) = 0;

  /// Call at each periodic check of the agent. On node 0 it is the heartbeat to itself, after which
  /// it checks all workers. On other nodes it checks whether node 0 still lives.
  virtual void tick() = 0;

  /// Ends the job for this node, which is fenced (plan/round/fence).
  virtual void note_fenced() = 0;

  /// This agent itself cannot go on, after workers may have been started. Returns how the job ends
  /// for this node.
  [[nodiscard]] virtual EndJob fail_job_for_this_node(const std::string& failure,
                                                      int exit_code) = 0;

  /// The address at which this node's workers find the store.
  [[nodiscard]] virtual std::string store_address() const = 0;
  /// The address of this node by which other nodes reach it.
  [[nodiscard]] virtual std::string own_address() const = 0;

  /// The rank that slows the job down now. Nothing: none stands out, or only node 0 knows.
  [[nodiscard]] virtual std::optional<SlowRank> slowest_rank() const { return std::nullopt; }

  /// After this no command comes any more.
  virtual void close() = 0;
};

}  // namespace ddp::launcher
