#include "launcher/run/doctor/doctor_coordinator.h"

#include <algorithm>
#include <utility>

#include "common/cli/log.h"
#include "common/exit_code.h"
#include "launcher/plan/doctor/diagnosis.h"
#include "launcher/plan/wire/message_codec.h"
#include "launcher/run/doctor/node_checks.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kMissingPause(10);  // between two lines about missing nodes
constexpr std::chrono::seconds kLookWait(60);      // for the slowest node's checks
constexpr std::chrono::seconds kFlushWait(2);

void print_line(const std::string& text) {
  log::info(text);
}

}  // namespace

DoctorCoordinator::DoctorCoordinator(asio::io_context& io,
                                     const JobSpec& spec,
                                     Rendezvous& rendezvous,
                                     NodeHealth own)
    : io_(io),
      spec_(spec),
      welcome_(rendezvous.welcome),
      table_(rendezvous.own, false),
      inbox_(io),
      store_(io, print_line),
      own_(std::move(own)) {
  if (!rendezvous.listeners) return;
  endpoint_.emplace(
      io, store_, print_line, std::move(*rendezvous.listeners), Endpoint::Size{1, spec.max_nodes});
  handshakes_.emplace(
      io, spec.token, spec.max_nodes, print_line, [this](const Hello& hello, const auto& link) {
        inbox_.push(HelloCame{hello, link});
      });
  endpoint_->serve_agents(
      [this](tcp::socket socket, const std::string& bytes, const std::string& source) {
        handshakes_->admit(std::move(socket), bytes, source);
      });
  endpoint_->start();
}

asio::awaitable<DoctorEnd> DoctorCoordinator::run() {
  if (endpoint_) co_await gather();
  if (nodes_.size() > 0) co_await check_nodes(0);
  if (nodes_.size() > 0) co_await check_nodes(kDoctorBytes);
  DoctorEnd end = conclude();
  const std::string frame = encode(DoctorMessage(end));
  for (const auto& [id, node] : nodes_)
    node.link->send(frame);
  for (const auto& [id, node] : nodes_) {
    co_await node.link->flush(Clock::now() + kFlushWait);
    node.link->close();
  }
  if (listener_) listener_->close();
  if (handshakes_) handshakes_->close();
  if (endpoint_) endpoint_->close();
  store_.close();
  co_return end;
}

bool DoctorCoordinator::all_have_reported() const {
  return std::ranges::all_of(nodes_,
                             [](const auto& node) { return node.second.health.has_value(); });
}

asio::awaitable<void> DoctorCoordinator::gather() {
  const Deadline last = Clock::now() + spec_.join_timeout;
  Deadline next_line = Clock::now() + kMissingPause;
  while (!table_.is_full() || !all_have_reported()) {
    const Clock::time_point now = Clock::now();
    if (now >= last) break;
    if (now >= next_line) {
      print_line(table_.who_is_missing());
      next_line += kMissingPause;
    }
    const std::optional<Event> event = co_await inbox_.next(std::min(last, next_line));
    if (event) note(*event);
  }
  assign_node_ranks();
}

void DoctorCoordinator::note(const Event& event) {
  if (const auto* const came = std::get_if<HelloCame>(&event)) return admit(*came);
  if (const auto* const own = std::get_if<NodeChecks>(&event)) return take(*own);
  const auto& report = std::get<NodeReported>(event);
  const auto node = nodes_.find(report.id);
  if (node == nodes_.end()) return;
  if (const auto* const gone = std::get_if<LinkLost>(&report.what)) {
    print_line("a node has left: " + table_.find(report.id).hello.host + ", " + gone->how);
    table_.remove(report.id);
    nodes_.erase(node);
    return;
  }
  const auto& message = std::get<DoctorMessage>(report.what);
  if (const auto* const health = std::get_if<NodeHealth>(&message)) {
    node->second.health = *health;
    // The address that we see, at which the others will try to reach the node.
    node->second.health->address = node->second.link->peer_address();
  } else if (const auto* const checks = std::get_if<NodeChecks>(&message)) {
    take(*checks);
  }
}

std::optional<Refusal> DoctorCoordinator::why_not(const Hello& hello) const {
  if (hello.user_run_id == kDoctorRunId) return table_.why_not(hello);
  return Refusal{exit_code::kRefused,
                 "node 0 (" + welcome_.host + ") runs ddp-launch doctor, " +
                     name_node(hello.node_rank, hello.host) +
                     " starts a job. Start doctor on all nodes, then the job."};
}

void DoctorCoordinator::admit(const HelloCame& came) {
  const std::optional<Refusal> refusal = why_not(came.hello);
  if (refusal || came.hello.is_question || is_checking_) {
    const Refusal late{exit_code::kRefused, "node 0 has begun to look; start doctor again."};
    if (refusal) print_line("refused: " + refusal->text);
    came.link->send(came.hello.is_question && !refusal ? encode(welcome_)
                                                       : encode(refusal.value_or(late)));
    asio::co_spawn(io_, dismiss(came.link), rethrow);
    return;
  }
  const int id = table_.add(came.hello);
  nodes_[id].link = came.link;
  came.link->send(encode(welcome_));
  came.link->start(
      [this, id](std::string_view frame) {
        std::optional<DoctorMessage> message = decode_doctor(frame);
        if (message) inbox_.push(NodeReported{id, std::move(*message)});
        return message.has_value();
      },
      [this, id](const std::string& how) {
        inbox_.push(NodeReported{id, LinkLost{how}});
      });
  print_line(name_node(came.hello.node_rank, came.hello.host) + " has come from " +
             came.link->peer_address());
  if (listener_) return;
  own_.address = came.link->own_address();
  listener_.emplace(io_, own_.address);
  own_.port = listener_->port();
  listener_->start();
}

asio::awaitable<void> DoctorCoordinator::dismiss(std::shared_ptr<ControlLink> link) {
  co_await link->flush(Clock::now() + kFlushWait);
  link->close();
}

/// Fixes the nodes: those that are here now.
void DoctorCoordinator::assign_node_ranks() {
  is_checking_ = true;
  const std::vector<int> ids = table_.assign_node_ranks();
  for (std::size_t node_rank = 0; node_rank < ids.size(); ++node_rank) {
    if (ids[node_rank] == 0) {
      own_.node_rank = static_cast<int>(node_rank);
      healths_.push_back(own_);
      continue;
    }
    Node& node = nodes_.at(ids[node_rank]);
    if (!node.health) continue;  // it joined, but sent nothing
    node.health->node_rank =
        table_.find(ids[node_rank]).hello.node_rank.value_or(static_cast<int>(node_rank));
    healths_.push_back(*node.health);
  }
  for (const NodeHealth& health : healths_) {
    checks_[health.node_rank].node_rank = health.node_rank;
    addresses_.push_back({health.node_rank, health.address, health.port});
  }
}

/// All nodes check their peers at once. With `bytes` each measures the rate to the next one.
asio::awaitable<void> DoctorCoordinator::check_nodes(std::int64_t bytes) {
  answers_ = 0;
  std::size_t asked = 1;
  for (const auto& [id, node] : nodes_) {
    if (!node.health) continue;
    ++asked;
    const CheckPeers task{node.health->node_rank, addresses_, bytes};
    node.link->send(encode(DoctorMessage(task)));
  }
  asio::co_spawn(io_, check_own_node(bytes), rethrow);
  const Deadline last = Clock::now() + kLookWait;
  while (answers_ < asked && answers_ < nodes_.size() + 1) {
    const std::optional<Event> event = co_await inbox_.next(last);
    if (!event) break;
    note(*event);
  }
}

asio::awaitable<void> DoctorCoordinator::check_own_node(std::int64_t bytes) {
  CheckPeers task;
  task.own_node_rank = own_.node_rank;
  task.nodes = addresses_;
  task.bytes = bytes;
  NodeChecks checks = co_await check_peers(io_, task);
  inbox_.push(std::move(checks));
}

void DoctorCoordinator::take(const NodeChecks& checks) {
  ++answers_;
  const auto known = checks_.find(checks.node_rank);
  if (known == checks_.end()) return;
  for (const PeerCheck& peer : checks.peers) {
    auto& peers = known->second.peers;
    const auto place = std::ranges::find(peers, peer.node_rank, &PeerCheck::node_rank);
    if (place == peers.end()) {
      peers.push_back(peer);
    } else {  // the second check
      place->bytes_per_second = peer.bytes_per_second;
      if (place->error.empty()) place->error = peer.error;
    }
  }
}

DoctorEnd DoctorCoordinator::conclude() {
  if (healths_.empty()) healths_.push_back(own_);
  std::vector<NodeChecks> checks;
  for (const auto& [node_rank, check] : checks_)
    checks.push_back(check);
  const Diagnosis diagnosis = diagnose(spec_.min_nodes, healths_, checks);
  return {diagnosis.problems > 0 ? 1 : 0, diagnosis.text};
}

}  // namespace ddp::launcher
