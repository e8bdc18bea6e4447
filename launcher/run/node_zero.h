// Node 0, as the agent of a node sees it: it is told events and gives commands. On node 0 itself it
// is the coordinator, on the others the link to node 0's agent (run/remote_node_zero).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/plan/round/messages.h"

namespace ddp::launcher {

class NodeZero {
 public:
  /// Takes a command of node 0, in the agent's loop. False: it makes no sense in the state that
  /// this node is in, so its sender is not our node 0.
  using TakeCommand = std::function<bool(const NodeCommand&)>;
  /// Says why this agent was lost: it did not run for so long that its node is fenced. Nothing:
  /// that did not happen.
  using WhySlept = std::function<std::optional<std::string>()>;

  NodeZero() = default;
  NodeZero(const NodeZero&) = delete;
  NodeZero& operator=(const NodeZero&) = delete;
  virtual ~NodeZero() = default;

  /// Commands come from now on, until the EndJob.
  virtual void start() = 0;

  virtual void send_event(const NodeEvent& event) = 0;
  virtual void reply(const HeartbeatReply& reply) = 0;

  /// To be called as often as the agent looks at its workers. Elsewhere: whether node 0 still
  /// lives; on node 0: the heartbeat to itself, by which it looks at all workers.
  virtual void tick() = 0;

  /// This node is fenced (plan/round/fence): ends the job for it.
  virtual void note_fenced() = 0;

  /// This agent itself cannot go on, after a worker may have lived. Returns how the job ends for
  /// it.
  [[nodiscard]] virtual EndJob note_agent_failed(const std::string& failure, int exit_code) = 0;

  /// Where the workers of this node find the store.
  [[nodiscard]] virtual std::string store_address() const = 0;
  /// By which of this node's addresses the other nodes are reached.
  [[nodiscard]] virtual std::string own_address() const = 0;

  /// No command comes any more.
  virtual void close() = 0;
};

}  // namespace ddp::launcher
