#include "launcher/plan/hosts/hosts_end.h"

#include <algorithm>
#include <csignal>

#include "common/exit_code.h"

namespace ddp::launcher {
namespace {

bool is_cut_off(ExitStatus status) {
  return status.exit_code() == HostsEnd::kSshFailed || status.signal != 0;
}

}  // namespace

HostsEnd::Action HostsEnd::note_connection_ended(std::size_t host, ExitStatus status, Time now) {
  hosts_[host].status = status;
  --open_;
  if (!deadline_)
    deadline_ = now + std::chrono::duration_cast<StopRequests::Time::duration>(others_wait_);
  if (requests_.count() > 0 || hosts_[host].has_agent) return Action::wait;
  const bool has_code = is_reached(status) && status.code != 0;
  if (!start_failure_) start_failure_ = has_code ? status.code : exit_code::kRendezvous;
  return Action::stop_agents;
}

HostsEnd::Action HostsEnd::note_stop_request(Time at) {
  constexpr Action kActions[] = {
      Action::wait, Action::stop_agents, Action::kill_agents, Action::cut_connections};
  return kActions[std::min(requests_.note(at), 3)];
}

HostsEnd::Action HostsEnd::note_deadline() {
  deadline_.reset();
  return Action::stop_agents;
}

int HostsEnd::exit_code() const {
  if (start_failure_) return *start_failure_;
  if (const Host* const reported = find_reported()) return reported->status->code;
  return requests_.count() > 0 ? exit_code::of_signal(SIGTERM) : kSshFailed;
}

std::vector<std::size_t> HostsEnd::cut_off() const {
  std::vector<std::size_t> hosts;
  if (start_failure_ || find_reported() == nullptr) return hosts;
  for (std::size_t host = 0; host < hosts_.size(); ++host)
    if (is_cut_off(*hosts_[host].status)) hosts.push_back(host);
  return hosts;
}

/// The first host whose agent ended by itself; null: none.
const HostsEnd::Host* HostsEnd::find_reported() const {
  const auto found =
      std::ranges::find_if(hosts_, [](const Host& host) { return !is_cut_off(*host.status); });
  return found == hosts_.end() ? nullptr : &*found;
}

}  // namespace ddp::launcher
