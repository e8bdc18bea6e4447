// Node 0 as other nodes see it: the control link to its agent. When node 0 is lost, or does not
// react, plan/round/node_zero_lost decides how this node ends its part of the job. This object then
// gives the commands as if node 0 had sent them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launcher/net/control_link.h"
#include "launcher/plan/round/node_commands.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/console.h"
#include "launcher/run/node_zero.h"
#include "launcher/run/rendezvous.h"

namespace ddp::launcher {

class RemoteNodeZero : public NodeZero {
 public:
  /// `commands`: those that this node has taken from node 0. `spec`, `commands` and `console`
  /// outlive this object. Precondition: the rendezvous has a link.
  RemoteNodeZero(const JobSpec& spec,
                 const NodeCommands& commands,
                 Console& console,
                 const Rendezvous& rendezvous,
                 NoteCommand note_command,
                 WhySlept why_slept);

  void start() override;
  void send_event(const NodeEvent& event) override;
  void reply(const HeartbeatReply& reply) override;
  void tick() override;
  void note_fenced() override;
  EndJob fail_job_for_this_node(const std::string& failure, int exit_code) override;
  [[nodiscard]] std::string store_address() const override { return link_->peer_address(); }
  [[nodiscard]] std::string own_address() const override { return link_->own_address(); }
  void close() override { link_->close(); }

 private:
  void end_alone_if_needed(bool is_fenced);

  const JobSpec& spec_;
  const NodeCommands& commands_;
  Console& console_;
  // Owners: this, and the operations under way on its socket.
  const std::shared_ptr<ControlLink> link_;
  const std::string host_;  // node 0's name
  const NoteCommand note_command_;
  const WhySlept why_slept_;
  std::optional<std::string> connection_end_;  // nothing: the link is open
};

}  // namespace ddp::launcher
