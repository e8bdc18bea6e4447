#include "launcher/run/store_host.h"

#include <unistd.h>

#include <algorithm>

#include "launcher/os/port.h"

namespace ddp::launcher {
namespace {

using Client = StoreServer::Client;

/// Whether a client comes from the worker, or from a process of its session on this node.
bool is_from(const Client& client, const RankPlace& worker, bool is_other_nodes) {
  if (!worker.address.empty()) return client.address == worker.address && client.pid == worker.pid;
  if (is_other_nodes) return false;
  return client.pid == worker.pid || ::getsid(client.pid) == worker.pid;
}

/// The worker that opened a connection, or the end.
template <typename Workers>
auto find_owner(const Client& client, Workers& workers) {
  const bool is_loopback = asio::ip::make_address(client.address).is_loopback();
  const bool is_other_nodes =
      !is_loopback && std::any_of(workers.begin(), workers.end(), [&](const RankPlace& worker) {
        return worker.address == client.address;
      });
  return std::find_if(workers.begin(), workers.end(), [&](const RankPlace& worker) {
    return is_from(client, worker, is_other_nodes);
  });
}

}  // namespace

StoreHost::StoreHost(asio::io_context& io, Console& console, const JobSpec& spec)
    : console_(console),
      spec_(spec),
      store_(io, [this](const std::string& text) { console_.warning(text); }) {
  const bool has_other_nodes = spec.max_nodes > 1;
  if (spec.store_in_worker && !has_other_nodes) return;
  const auto warn = [this](const std::string& text) { console_.warning(text); };
  Endpoint::Place place;
  place.address = spec.master_addr;
  place.port = spec.master_port;
  place.nodes = spec.max_nodes;
  place.world_size = spec.max_nodes * spec.nproc;  // a guess: the other nodes may have more
  endpoint_.emplace(io, store_, warn, place);
}

int StoreHost::begin_round() {
  next_roll_ = Clock::now() + kRollCall;
  if (endpoint_) endpoint_->begin_round();
  if (!spec_.store_in_worker) return endpoint_->port();
  if (endpoint_ || spec_.master_port == 0) return free_port();  // the job's own port is ours
  require_free_port(spec_.master_port);
  return spec_.master_port;
}

void StoreHost::start() {
  if (endpoint_) endpoint_->start();
}

void StoreHost::close() {
  if (endpoint_) endpoint_->close();
}

void StoreHost::note_joined(std::span<RankPlace> workers) const {
  for (const Client& client : store_.joined()) {
    const auto worker = find_owner(client, workers);
    if (worker != workers.end()) worker->joined = true;
  }
}

void StoreHost::call_roll(std::span<const RankPlace> workers) {
  if (spec_.store_in_worker || Clock::now() < next_roll_) return;
  next_roll_ += kRollCall;
  std::vector<Attendance> ranks;
  for (const RankPlace& worker : workers)
    ranks.push_back(Attendance{worker.rank, worker.pid, worker.joined, worker.ended});
  const auto& joined = store_.joined();
  const auto strangers = std::count_if(joined.begin(), joined.end(), [&](const Client& client) {
    return find_owner(client, workers) == workers.end();
  });
  if (const auto line = who_is_missing(ranks, static_cast<int>(strangers))) console_.info(*line);
}

void StoreHost::note_waits(std::span<const RankPlace> workers,
                           std::span<WorkerSample> samples,
                           Clock::time_point begin) const {
  for (const StoreServer::Waiting& wait : store_.waiting()) {  // the longest first
    const auto worker = find_owner(wait.client, workers);
    if (worker == workers.end()) continue;
    for (WorkerSample& sample : samples) {
      if (sample.rank != worker->rank || sample.waits_since) continue;
      sample.waits_since = wait.since - begin;
    }
  }
}

}  // namespace ddp::launcher
