#include "launcher/run/store_host.h"

#include <unistd.h>

#include "launcher/os/port.h"
#include "launcher/plan/store/store_joins.h"

namespace ddp::launcher {
StoreHost::StoreHost(asio::io_context& io,
                     Console& console,
                     const JobSpec& spec,
                     std::optional<Listeners> listeners)
    : console_(console),
      spec_(spec),
      store_(io, [this](const std::string& text) { console_.warning(text); }) {
  const auto warn = [this](const std::string& text) { console_.warning(text); };
  if (!listeners) {
    if (spec.store_in_worker) return;
    listeners = listen_for_job(io, spec.master_addr, spec.master_port, false, warn);
  }
  const int world_size = spec.max_nodes * spec.nproc;  // a guess: other nodes may have more workers
  store_.set_max_bytes(KeySpace::max_bytes_of(world_size));
  endpoint_.emplace(
      io, store_, warn, std::move(*listeners), Endpoint::Size{world_size, spec.max_nodes});
}

int StoreHost::begin_round() {
  begun_ = Clock::now();
  next_reminder_ = begun_ + kReminder;
  ranks_.clear();
  other_nodes_.clear();
  seen_ = 0;
  unknown_clients_ = 0;
  if (endpoint_) endpoint_->begin_round();
  if (!spec_.store_in_worker) return endpoint_->port();
  if (endpoint_ || spec_.master_port == 0) return free_port();  // the agent has the job's own port
  require_free_port(spec_.master_port);
  return spec_.master_port;
}

void StoreHost::start() {
  if (endpoint_) endpoint_->start();
}

void StoreHost::close() {
  if (endpoint_) endpoint_->close();
}

void StoreHost::expect(std::span<const WorkerState> workers) {
  for (const WorkerState& worker : workers) {
    ranks_.emplace(StoreServer::Client{worker.address, worker.pid}, worker.rank);
    if (!worker.address.empty()) other_nodes_.insert(worker.address);
  }
}

/// The rank whose worker opened the connection; on our own node also by another process of its
/// session.
std::optional<int> StoreHost::owner_of(const StoreServer::Client& client) const {
  const auto of = [this](const std::string& address, pid_t pid) -> std::optional<int> {
    const auto found = ranks_.find(StoreServer::Client{address, pid});
    return found == ranks_.end() ? std::nullopt : std::optional<int>(found->second);
  };
  if (const auto rank = of(client.address, client.pid)) return rank;
  // Another agent of the job may share our machine, and so an address.
  const bool is_loopback = asio::ip::make_address(client.address).is_loopback();
  if (other_nodes_.contains(client.address) && !is_loopback) return std::nullopt;
  if (const auto rank = of("", client.pid)) return rank;
  return of("", ::getsid(client.pid));
}

std::vector<int> StoreHost::take_joins() {
  std::vector<int> ranks;
  const auto& joined = store_.joined();
  if (first_join_.count() == 0 && !joined.empty()) first_join_ = store_.first_join() - begun_;
  for (; seen_ < joined.size(); ++seen_) {
    const std::optional<int> rank = owner_of(joined[seen_]);
    if (!rank) ++unknown_clients_;
    if (rank) ranks.push_back(*rank);
  }
  return ranks;
}

void StoreHost::remind_of_missing(std::span<const WorkerState> workers) {
  if (spec_.store_in_worker || Clock::now() < next_reminder_) return;
  next_reminder_ += kReminder;
  if (const auto line = who_is_missing(workers, unknown_clients_)) console_.info(*line);
}

void StoreHost::note_clients(std::span<WorkerSample> samples, Clock::time_point begin) const {
  for (const auto& [client, writes] : store_.writes()) {
    const std::optional<int> rank = owner_of(client);
    if (rank) samples[static_cast<std::size_t>(*rank)].store_writes += writes;
  }
  for (const StoreServer::Client& client : store_.connected())
    if (const auto rank = owner_of(client))
      samples[static_cast<std::size_t>(*rank)].is_in_store = true;
  for (const StoreServer::Waiting& wait : store_.waiting()) {  // longest wait first
    const std::optional<int> rank = owner_of(wait.client);
    if (!rank) continue;
    WorkerSample& sample = samples[static_cast<std::size_t>(*rank)];
    if (!sample.waits_since) sample.waits_since = wait.since - begin;
  }
}

}  // namespace ddp::launcher
