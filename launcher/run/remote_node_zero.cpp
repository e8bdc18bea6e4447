#include "launcher/run/remote_node_zero.h"

#include <utility>

#include "launcher/os/resources.h"
#include "launcher/plan/message_codec.h"
#include "launcher/plan/node_table.h"
#include "launcher/plan/report.h"

namespace ddp::launcher {
namespace {

/// How the job ends for this node alone.
JobEnd own_end(int code, const std::string& text) {
  JobEnd end;
  end.exit_code = code;
  end.report = clean("ddp-launch: " + text);
  end.members = "\"decided_by\":\"launcher\"";
  return end;
}

}  // namespace

RemoteNodeZero::RemoteNodeZero(const JobSpec& spec,
                               const NodeCommands& commands,
                               Console& console,
                               const Rendezvous& rendezvous,
                               TakeCommand take_command,
                               WhyFenced why_fenced)
    : spec_(spec),
      commands_(commands),
      console_(console),
      link_(rendezvous.link),
      host_(rendezvous.welcome.host),
      take_command_(std::move(take_command)),
      why_fenced_(std::move(why_fenced)) {}

void RemoteNodeZero::start() {
  link_->start(
      [this](std::string_view frame) {
        const std::optional<NodeCommand> command = decode_command(frame);
        const auto* const heartbeat = command ? std::get_if<Heartbeat>(&*command) : nullptr;
        if (heartbeat != nullptr && !spec_.shares_console) console_.live(heartbeat->line);
        return command && take_command_(*command);
      },
      [this](const std::string& how) {
        connection_end_ = how;
        look();
      });
}

void RemoteNodeZero::tell(const NodeEvent& event) {
  if (link_->is_open()) link_->send(encode(event));
}

void RemoteNodeZero::reply(const HeartbeatReply& reply) {
  link_->send_heartbeat(encode(NodeEvent(reply)));
}

void RemoteNodeZero::look() {
  end_if_left(false);
}

void RemoteNodeZero::end_fenced() {
  end_if_left(true);
}

JobEnd RemoteNodeZero::abandon(const std::string& failure, int exit_code) {
  tell(NodeFailed{commands_.round(), exit_code, failure});
  return own_end(exit_code, failure);
}

/// What decides plan/lone_end: this node ends its part, when nobody tells it any more to.
void RemoteNodeZero::end_if_left(bool guard_has_killed) {
  if (commands_.job_end()) return;
  const Clock::time_point now = Clock::now();
  NodeZeroView view;
  view.name = name_node(0, host_);
  view.address = host_ + ", " + link_->peer_address();
  view.why_fenced = why_fenced_();
  view.connection_end = connection_end_;
  view.silence = now - link_->last_heard();
  view.silence_hint = link_->hint();
  view.guard_has_killed = guard_has_killed;
  view.is_unheard = commands_.is_unheard(now);
  view.requested_signal = commands_.requested_signal();
  std::optional<LoneEnd> end = end_without_node_zero(view, spec_.grace);
  if (!end) return;
  link_->close();  // the reason for this may be of its own making
  end->stop.round = commands_.round();
  const JobEnd job_end = describe(*end);
  // As if node 0 had given these commands; it is not heard any more.
  take_command_(end->stop);
  take_command_(job_end);
}

JobEnd RemoteNodeZero::describe(const LoneEnd& end) const {
  if (!end.lost) {
    JobEnd own = own_end(end.exit_code, end.text);
    if (end.stop.cause == StopCause::abandoned) own.state = RunState::stopped;
    return own;
  }
  Verdict verdict;
  verdict.outcome = *end.lost;
  verdict.exit_code = end.exit_code;
  verdict.world_size = commands_.world_size();
  const std::optional<StopRound>& before = commands_.stop_command();
  if (before && !before->what.empty()) {  // what had happened before is not forgotten
    verdict.earlier_rounds.push_back("the round was being ended, as " + before->what);
    console_.error(end.stop.what);
  }
  return describe_end(verdict, spec_, host_name(), 0);
}

}  // namespace ddp::launcher
