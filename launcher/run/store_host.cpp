#include "launcher/run/store_host.h"

#include <unistd.h>

#include <algorithm>

#include "launcher/os/port.h"

namespace ddp::launcher {
namespace {

/// The worker that opened a connection, itself or by a process of its session; null for others.
const Worker* owner_of(pid_t client, const WorkerGroup& group) {
  const auto& workers = group.workers();
  const pid_t session = ::getsid(client);
  const auto found = std::find_if(workers.begin(), workers.end(), [&](const auto& worker) {
    return worker->pid == client || worker->pid == session;
  });
  return found == workers.end() ? nullptr : found->get();
}

}  // namespace

StoreHost::StoreHost(asio::io_context& io, Console& console, const JobSpec& spec)
    : console_(console),
      spec_(spec),
      store_(io, [this](const std::string& text) { console_.warning(text); }) {
  if (spec.store_in_worker) return;
  const auto warn = [this](const std::string& text) { console_.warning(text); };
  endpoint_.emplace(
      io, store_, warn, Endpoint::Place{spec.master_addr, spec.master_port, spec.nproc});
}

int StoreHost::begin_round() {
  next_roll_ = Clock::now() + kRollCall;
  if (endpoint_) {
    endpoint_->begin_round();
    return endpoint_->port();
  }
  if (spec_.master_port == 0) return free_port();
  require_free_port(spec_.master_port);
  return spec_.master_port;
}

void StoreHost::start() {
  if (endpoint_) endpoint_->start();
}

void StoreHost::close() {
  if (endpoint_) endpoint_->close();
}

void StoreHost::note_joined(WorkerGroup& group) const {
  for (const pid_t client : store_.joined()) {
    if (const Worker* const worker = owner_of(client, group)) {
      group.note_joined(worker->placement.rank);
    }
  }
}

void StoreHost::call_roll(const WorkerGroup& group) {
  if (!endpoint_ || Clock::now() < next_roll_) return;
  next_roll_ += kRollCall;
  int strangers = 0;
  const std::vector<Attendance> ranks = attendance(group, strangers);
  if (const auto line = who_is_missing(ranks, strangers)) console_.info(*line);
}

void StoreHost::note_waits(const WorkerGroup& group, std::vector<WorkerSample>& samples) const {
  for (const StoreServer::Waiting& wait : store_.waiting()) {  // the longest first
    const Worker* const worker = owner_of(wait.pid, group);
    if (worker == nullptr) continue;
    for (WorkerSample& sample : samples) {
      if (sample.rank != worker->placement.rank || sample.waits_since) continue;
      sample.waits_since = wait.since - group.begin();
    }
  }
}

std::vector<Attendance> StoreHost::attendance(const WorkerGroup& group, int& strangers) const {
  std::vector<Attendance> ranks;
  for (const auto& worker : group.workers()) {
    Attendance attendance;
    attendance.rank = worker->placement.rank;
    attendance.pid = worker->pid;
    attendance.joined = worker->joined_store;
    attendance.ended = worker->ending.has_value();
    ranks.push_back(attendance);
  }
  const auto& joined = store_.joined();
  strangers = static_cast<int>(std::count_if(joined.begin(), joined.end(), [&](pid_t client) {
    return owner_of(client, group) == nullptr;
  }));
  return ranks;
}

}  // namespace ddp::launcher
