#include "launcher/plan/round/node_wait.h"

#include <algorithm>

namespace ddp::launcher {

NodeWait::Presence NodeWait::presence_of(const NodeTable& table,
                                         const Round* round,
                                         bool may_replace) {
  const bool has_lost =
      round != nullptr && round->has_lost_node() && table.present() < round->nodes();
  return {table.is_full(), table.is_enough(), has_lost, may_replace};
}

NodeWait::Decision NodeWait::advance(const Presence& nodes, Time not_before, Time now) {
  if (now >= not_before) {
    const bool may_begin = !config_.is_first && (now >= limit_end_ || !nodes.awaits_another());
    if (nodes.is_full || (nodes.is_enough && may_begin)) return Decision::begin;
    if (config_.is_first && nodes.is_enough && !last_call_) last_call_ = now + config_.last_call;
    if (last_call_ && now >= *last_call_) return Decision::begin;
  }
  if (!nodes.is_enough) {
    last_call_.reset();
    if (now >= limit_end_) return Decision::give_up;
  }
  deadline_ = std::min(reminder_, last_call_.value_or(Time::max()));
  // The limit may pass before `not_before`. It must not wake the caller again and again.
  const bool has_limit = !nodes.is_enough || nodes.awaits_another();
  if (has_limit && now < limit_end_) deadline_ = std::min(deadline_, limit_end_);
  if (now < not_before) deadline_ = std::min(deadline_, not_before);
  return Decision::wait;
}

bool NodeWait::take_reminder(Time now) {
  if (now < reminder_) return false;
  reminder_ = now + kReminder;  // one reminder after a sleep of this machine
  return true;
}

}  // namespace ddp::launcher
