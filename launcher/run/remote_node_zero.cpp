#include "launcher/run/remote_node_zero.h"

#include <utility>

#include "common/node/identity.h"
#include "launcher/plan/round/job_report.h"
#include "launcher/plan/round/node_table.h"
#include "launcher/plan/wire/message_codec.h"

namespace ddp::launcher {

RemoteNodeZero::RemoteNodeZero(const JobSpec& spec,
                               const NodeCommands& commands,
                               Console& console,
                               const Rendezvous& rendezvous,
                               NoteCommand note_command,
                               WhySlept why_slept)
    : spec_(spec),
      commands_(commands),
      console_(console),
      link_(rendezvous.link),
      host_(rendezvous.welcome.host),
      note_command_(std::move(note_command)),
      why_slept_(std::move(why_slept)) {}

void RemoteNodeZero::start() {
  link_->start(
      [this](std::string_view frame) {
        const std::optional<NodeCommand> command = decode_command(frame);
        const auto* const heartbeat = command ? std::get_if<Heartbeat>(&*command) : nullptr;
        if (heartbeat != nullptr && !spec_.shares_console) console_.live(heartbeat->line);
        return command && note_command_(*command);
      },
      [this](const std::string& how) {
        connection_end_ = how;
        tick();
      });
}

void RemoteNodeZero::send_event(const NodeEvent& event) {
  if (link_->is_open()) link_->send(encode(event));
}

void RemoteNodeZero::reply(const HeartbeatReply& reply) {
  link_->send_heartbeat(encode(NodeEvent(reply)));
}

void RemoteNodeZero::tick() {
  end_alone_if_needed(false);
}

void RemoteNodeZero::note_fenced() {
  end_alone_if_needed(true);
}

EndJob RemoteNodeZero::fail_job_for_this_node(const std::string& failure, int exit_code) {
  send_event(AgentFailed{commands_.round(), exit_code, failure});
  return describe_own_end(exit_code, failure);
}

/// Asks plan/round/node_zero_lost whether this node must end its part without node 0, and does so.
void RemoteNodeZero::end_alone_if_needed(bool is_fenced) {
  if (commands_.end_job()) return;
  const Clock::time_point now = Clock::now();
  NodeZeroFacts facts;
  facts.name = name_node(0, host_);
  facts.host = host_ + ", " + link_->peer_address();
  facts.why_slept = why_slept_();
  facts.connection_end = connection_end_;
  facts.silence = now - link_->last_heard();
  facts.silence_hint = link_->hint();
  facts.is_fenced = is_fenced;
  facts.is_stop_unanswered = commands_.is_stop_unanswered(now);
  facts.requested_signal = commands_.requested_signal();
  std::optional<EndWithoutNodeZero> end = end_without_node_zero(facts, spec_.grace);
  if (!end) return;
  link_->close();  // first, so that no later command of node 0 is obeyed
  end->command.round = commands_.round();
  const std::optional<EndRound>& before = commands_.end_command();
  // A stop that is under way has printed its own line; print also that node 0 is lost.
  if (end->lost && before && !before->what.empty()) console_.error(end->command.what);
  const EndJob end_job =
      describe_end_without_node_zero(*end, before, commands_.world_size(), spec_, host_name());
  // Take these commands as if node 0 had sent them. The end of the round comes first, so that the
  // round ends for this reason and not because the job ended.
  note_command_(end->command);
  note_command_(end_job);
}

}  // namespace ddp::launcher
