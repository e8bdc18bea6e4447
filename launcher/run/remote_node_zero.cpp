#include "launcher/run/remote_node_zero.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/exit_code.h"
#include "common/units.h"
#include "launcher/os/resources.h"
#include "launcher/plan/message_codec.h"
#include "launcher/plan/node_table.h"
#include "launcher/run/node_links.h"
#include "launcher/run/report.h"

namespace ddp::launcher {
namespace {

// From the loss of node 0 to SIGKILL, at most: by then nobody can tell us that a new round begins.
constexpr std::chrono::seconds kLostGrace(5);

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
        // Who has slept was given up, and hears of that first when it is awake.
        if (!why_fenced_().empty()) return note_fenced();
        lose("its agent is gone (" + how + ")", SIGTERM);
      });
}

void RemoteNodeZero::tell(const NodeEvent& event) {
  if (link_->is_open()) link_->send(encode(event));
}

void RemoteNodeZero::reply(const HeartbeatReply& reply) {
  link_->send_heartbeat(encode(NodeEvent(reply)));
}

void RemoteNodeZero::look() {
  if (Clock::now() - link_->last_heard() > NodeLinks::kLease) {
    lose(silence(), SIGKILL);
  } else if (commands_.is_unheard(Clock::now())) {
    leave_unheard();
  }
}

void RemoteNodeZero::note_fenced() {
  const std::string slept = why_fenced_();
  if (slept.empty()) return lose(silence(), SIGKILL);  // it is node 0 that says nothing
  if (commands_.end()) return;
  StopRound stop;
  stop.signal = SIGKILL;
  stop.cause = StopCause::launch_failed;
  stop.what = slept;
  end_alone(stop, own_end(exit_code::kNodeLost, slept + "."));
}

JobEnd RemoteNodeZero::abandon(const std::string& failure, int exit_code) {
  tell(NodeFailed{commands_.round(), exit_code, failure});
  return own_end(exit_code, failure);
}

std::string RemoteNodeZero::silence() const {
  return "silent for " + format_seconds(Clock::now() - link_->last_heard()) + link_->hint();
}

/// Nobody tells us any more what the job does, and nobody hears us: this node ends its part.
void RemoteNodeZero::lose(const std::string& how, int signal) {
  if (commands_.end()) return;
  const std::string what = name_node(0, host_) + " is lost: " + how;
  Verdict verdict;
  verdict.outcome = NodeLost{0, host_ + ", " + link_->peer_address(), how, {}};
  verdict.exit_code = exit_code::kNodeLost;
  verdict.world_size = commands_.world_size();
  const std::optional<StopRound>& before = commands_.stop();
  if (before && !before->what.empty()) {  // what had happened before is not forgotten
    verdict.earlier_rounds.push_back("the round was being ended, as " + before->what);
    console_.error(what);
  }
  StopRound stop;
  stop.cause = StopCause::node_lost;
  stop.what = what;
  stop.signal = signal;
  stop.grace = std::min<std::chrono::milliseconds>(spec_.grace, kLostGrace);
  end_alone(stop, describe_end(verdict, spec_, host_name(), 0));
}

/// The user wants to go, and node 0 is heard but commands nothing.
void RemoteNodeZero::leave_unheard() {
  const int signal = commands_.asked_signal();
  const std::string text =
      signal_name(signal) + " came twice, and " + name_node(0, host_) + " does not end the job";
  StopRound stop;
  stop.cause = StopCause::launch_failed;
  stop.what = text;
  stop.signal = SIGKILL;
  JobEnd end = own_end(exit_code::of_signal(signal), text + ": this node leaves it.");
  end.state = RunState::stopped;
  end_alone(stop, end);
}

/// As if node 0 had given these commands; it is not heard any more.
void RemoteNodeZero::end_alone(StopRound stop, const JobEnd& end) {
  link_->close();  // the reason for this may be of its own making
  stop.round = commands_.round();
  take_command_(stop);
  take_command_(end);
}

}  // namespace ddp::launcher
