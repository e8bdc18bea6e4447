#include "launcher/run/doctor.h"

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <variant>

#include "common/error.h"
#include "common/log.h"
#include "launcher/net/endpoint.h"
#include "launcher/net/handshake_server.h"
#include "launcher/net/peer_check.h"
#include "launcher/os/inbox.h"
#include "launcher/os/interfaces.h"
#include "launcher/os/node_health.h"
#include "launcher/os/resources.h"
#include "launcher/plan/doctor_codec.h"
#include "launcher/plan/message_codec.h"
#include "launcher/plan/node_table.h"
#include "launcher/run/rendezvous.h"
#include "launcher/run/report.h"

namespace ddp::launcher {
namespace {

// An agent that starts a job there, or here, is told that this is not it.
constexpr const char* kRunId = "ddp-launch doctor";
constexpr std::size_t kAtOnce = 16;  // peers that a node tries side by side
constexpr std::chrono::seconds kRollCall(10);
constexpr std::chrono::seconds kLookWait(60);    // for the checks of the slowest node
constexpr std::chrono::seconds kOrderWait(600);  // of a node, for node 0's next word
constexpr std::chrono::seconds kFlushWait(2);

NodeHealth look_at_own(const JobSpec& spec) {
  NodeHealth health = look_at_health();
  health.host = host_name();
  health.version = DDP_VERSION;
  health.cpus = spec.facts.cpus;
  for (const Gpu& gpu : spec.facts.devices)
    health.gpus.push_back(gpu.model.empty() ? "?" : gpu.model);
  health.interfaces = list_interfaces();
  return health;
}

/// The task's peers: all others in a ring, or the next one.
std::vector<PeerPlace> peers_of(const LookAtPeers& task) {
  std::vector<PeerPlace> peers;
  const auto own = std::find_if(task.nodes.begin(), task.nodes.end(), [&](const auto& node) {
    return node.node_rank == task.own_rank;
  });
  if (own == task.nodes.end()) return peers;
  peers.assign(own + 1, task.nodes.end());
  peers.insert(peers.end(), task.nodes.begin(), own);
  peers.resize(std::min<std::size_t>(peers.size(), task.bytes > 0 ? 1 : kMostPeers));
  return peers;
}

using Checked = Inbox<PeerCheck>;

asio::awaitable<void> check_one(asio::io_context& io,
                                PeerPlace peer,
                                std::int64_t bytes,
                                std::shared_ptr<Checked> checked) {
  PeerCheck check = co_await check_peer(io, peer, bytes);
  checked->push(std::move(check));
}

asio::awaitable<NodeChecks> look_at_peers(asio::io_context& io, LookAtPeers task) {
  NodeChecks checks;
  checks.node_rank = task.own_rank;
  const std::vector<PeerPlace> peers = peers_of(task);
  const auto checked = std::make_shared<Checked>(io);  // owners: this, and the checks under way
  std::size_t begun = 0;
  while (checks.peers.size() < peers.size()) {
    while (begun < peers.size() && begun < checks.peers.size() + kAtOnce) {
      asio::co_spawn(io, check_one(io, peers[begun++], task.bytes, checked), rethrow);
    }
    std::optional<PeerCheck> check = co_await checked->next(kNoDeadline);
    checks.peers.push_back(std::move(*check));
  }
  std::sort(checks.peers.begin(), checks.peers.end(), [](const auto& left, const auto& right) {
    return left.node_rank < right.node_rank;
  });
  co_return checks;
}

struct Gone {
  std::string how;
};

/// Node 0, or the only one: asks all, and makes the diagnosis.
class ChiefDoctor {
 public:
  ChiefDoctor(asio::io_context& io, const JobSpec& spec, Rendezvous& rendezvous)
      : io_(io),
        spec_(spec),
        welcome_(rendezvous.welcome),
        table_(rendezvous.own, false),
        inbox_(io),
        store_(io, say),
        own_(look_at_own(spec)) {
    if (spec.max_nodes == 1) return;
    endpoint_.emplace(
        io, store_, say, std::move(*rendezvous.listeners), Endpoint::Size{1, spec.max_nodes});
    door_.emplace(
        io, spec.token, spec.max_nodes, say, [this](const Hello& hello, const auto& link) {
          inbox_.push(Came{hello, link});
        });
    endpoint_->serve_agents(
        [this](tcp::socket socket, const std::string& bytes, const std::string& source) {
          door_->admit(std::move(socket), bytes, source);
        });
    endpoint_->start();
  }

  asio::awaitable<DoctorEnd> run() {
    if (endpoint_) co_await gather();
    if (nodes_.size() > 0) co_await look(0);
    if (nodes_.size() > 0) co_await look(kDoctorBytes);
    DoctorEnd end = conclude();
    const std::string frame = encode(DoctorMessage(end));
    for (const auto& [id, node] : nodes_)
      node.link->send(frame);
    for (const auto& [id, node] : nodes_) {
      co_await node.link->flush(Clock::now() + kFlushWait);
      node.link->close();
    }
    if (listener_) listener_->close();
    if (door_) door_->close();
    if (endpoint_) endpoint_->close();
    store_.close();
    co_return end;
  }

 private:
  struct Came {
    Hello hello;
    std::shared_ptr<ControlLink> link;
  };
  struct Told {
    int id = 0;
    std::variant<DoctorMessage, Gone> what;
  };
  using Event = std::variant<Came, Told, NodeChecks>;  // the last: our own
  struct Node {
    std::shared_ptr<ControlLink> link;
    std::optional<NodeHealth> health;
  };

  static void say(const std::string& text) { log::info(text); }

  [[nodiscard]] bool all_have_told() const {
    return std::all_of(
        nodes_.begin(), nodes_.end(), [](const auto& node) { return node.second.health; });
  }

  asio::awaitable<void> gather() {
    const Deadline last = Clock::now() + spec_.join_timeout;
    Deadline roll = Clock::now() + kRollCall;
    while (!table_.is_full() || !all_have_told()) {
      const Clock::time_point now = Clock::now();
      if (now >= last) break;
      if (now >= roll) {
        say(table_.who_is_missing());
        roll += kRollCall;
      }
      const std::optional<Event> event = co_await inbox_.next(std::min(last, roll));
      if (event) note(*event);
    }
    give_ranks();
  }

  void note(const Event& event) {
    if (const auto* const came = std::get_if<Came>(&event)) return admit(*came);
    if (const auto* const own = std::get_if<NodeChecks>(&event)) return take(*own);
    const auto& told = std::get<Told>(event);
    const auto node = nodes_.find(told.id);
    if (node == nodes_.end()) return;
    if (const auto* const gone = std::get_if<Gone>(&told.what)) {
      say("a node has left: " + table_.find(told.id).hello.host + ", " + gone->how);
      table_.remove(told.id);
      nodes_.erase(node);
      return;
    }
    const auto& message = std::get<DoctorMessage>(told.what);
    if (const auto* const health = std::get_if<NodeHealth>(&message)) {
      node->second.health = *health;
      // Where the others will look for it: the address that we see.
      node->second.health->address = node->second.link->peer_address();
    } else if (const auto* const checks = std::get_if<NodeChecks>(&message)) {
      take(*checks);
    }
  }

  [[nodiscard]] std::optional<Refusal> why_not(const Hello& hello) const {
    if (hello.user_run_id == kRunId) return table_.why_not(hello);
    return Refusal{exit_code::kRefused,
                   "node 0 (" + welcome_.host + ") runs ddp-launch doctor, " +
                       name_node(hello.node_rank, hello.host) +
                       " starts a job. Start doctor on all nodes, then the job."};
  }

  void admit(const Came& came) {
    const std::optional<Refusal> refusal = why_not(came.hello);
    if (refusal || came.hello.asks || is_looking_) {
      const Refusal late{exit_code::kRefused, "node 0 has begun to look; start doctor again."};
      if (refusal) say("refused: " + refusal->text);
      came.link->send(came.hello.asks && !refusal ? encode(welcome_)
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
          if (message) inbox_.push(Told{id, std::move(*message)});
          return message.has_value();
        },
        [this, id](const std::string& how) {
          inbox_.push(Told{id, Gone{how}});
        });
    say(name_node(came.hello.node_rank, came.hello.host) + " has come from " +
        came.link->peer_address());
    if (listener_) return;
    own_.address = came.link->own_address();
    listener_.emplace(io_, own_.address);
    own_.port = listener_->port();
    listener_->start();
  }

  static asio::awaitable<void> dismiss(std::shared_ptr<ControlLink> link) {
    co_await link->flush(Clock::now() + kFlushWait);
    link->close();
  }

  /// The nodes are those that are here now.
  void give_ranks() {
    is_looking_ = true;
    const std::vector<int> ids = table_.assign_ranks();
    for (std::size_t rank = 0; rank < ids.size(); ++rank) {
      if (ids[rank] == 0) {
        own_.node_rank = static_cast<int>(rank);
        patients_.push_back(own_);
        continue;
      }
      Node& node = nodes_.at(ids[rank]);
      if (!node.health) continue;  // it came, and said nothing
      node.health->node_rank =
          table_.find(ids[rank]).hello.node_rank.value_or(static_cast<int>(rank));
      patients_.push_back(*node.health);
    }
    for (const NodeHealth& patient : patients_) {
      checks_[patient.node_rank].node_rank = patient.node_rank;
      places_.push_back({patient.node_rank, patient.address, patient.port});
    }
  }

  /// All nodes look at once; with `bytes` each measures the way to the next one.
  asio::awaitable<void> look(std::int64_t bytes) {
    answers_ = 0;
    std::size_t asked = 1;
    for (const auto& [id, node] : nodes_) {
      if (!node.health) continue;
      ++asked;
      const LookAtPeers task{node.health->node_rank, places_, bytes};
      node.link->send(encode(DoctorMessage(task)));
    }
    asio::co_spawn(io_, look_ourselves(bytes), rethrow);
    const Deadline last = Clock::now() + kLookWait;
    while (answers_ < asked && answers_ < nodes_.size() + 1) {
      const std::optional<Event> event = co_await inbox_.next(last);
      if (!event) break;
      note(*event);
    }
  }

  asio::awaitable<void> look_ourselves(std::int64_t bytes) {
    LookAtPeers task;
    task.own_rank = own_.node_rank;
    task.nodes = places_;
    task.bytes = bytes;
    NodeChecks checks = co_await look_at_peers(io_, task);
    inbox_.push(std::move(checks));
  }

  void take(const NodeChecks& checks) {
    ++answers_;
    const auto known = checks_.find(checks.node_rank);
    if (known == checks_.end()) return;
    for (const PeerCheck& peer : checks.peers) {
      auto& peers = known->second.peers;
      const auto place = std::find_if(peers.begin(), peers.end(), [&](const PeerCheck& check) {
        return check.node_rank == peer.node_rank;
      });
      if (place == peers.end()) {
        peers.push_back(peer);
      } else {  // the second look
        place->bytes_per_second = peer.bytes_per_second;
        if (place->error.empty()) place->error = peer.error;
      }
    }
  }

  DoctorEnd conclude() {
    if (patients_.empty()) patients_.push_back(own_);
    std::vector<NodeChecks> checks;
    for (const auto& [rank, check] : checks_)
      checks.push_back(check);
    const Diagnosis diagnosis = diagnose(spec_.min_nodes, patients_, checks);
    return {diagnosis.problems > 0 ? 1 : 0, diagnosis.text};
  }

  asio::io_context& io_;
  const JobSpec& spec_;
  const Welcome welcome_;
  NodeTable table_;
  Inbox<Event> inbox_;
  StoreServer store_;  // of no worker: the port has one
  std::optional<Endpoint> endpoint_;
  std::optional<HandshakeServer> door_;
  NodeHealth own_;
  std::optional<PeerListener> listener_;
  std::map<int, Node> nodes_;  // the others, by id
  bool is_looking_ = false;
  std::vector<NodeHealth> patients_;
  std::vector<PeerPlace> places_;     // of the same
  std::map<int, NodeChecks> checks_;  // by node rank
  std::size_t answers_ = 0;
};

/// Any other node: tells about itself, does as it is asked.
asio::awaitable<DoctorEnd> assist(asio::io_context& io,
                                  const JobSpec& spec,
                                  std::shared_ptr<ControlLink> link) {
  using Event = std::variant<DoctorMessage, Gone>;
  Inbox<Event> inbox(io);
  PeerListener listener(io, link->own_address());
  listener.start();
  NodeHealth health = look_at_own(spec);
  health.address = link->own_address();
  health.port = listener.port();
  link->start(
      [&inbox](std::string_view frame) {
        std::optional<DoctorMessage> message = decode_doctor(frame);
        if (message) inbox.push(std::move(*message));
        return message.has_value();
      },
      [&inbox](const std::string& how) { inbox.push(Gone{how}); });
  link->send(encode(DoctorMessage(health)));
  std::string how = "it says nothing";
  while (true) {
    const std::optional<Event> event = co_await inbox.next(Clock::now() + kOrderWait);
    const auto* const message = event ? std::get_if<DoctorMessage>(&*event) : nullptr;
    if (message == nullptr) {
      if (event) how = std::get<Gone>(*event).how;
      break;
    }
    const auto* const end = std::get_if<DoctorEnd>(message);
    if (end != nullptr) {
      link->close();
      listener.close();
      co_return *end;
    }
    const auto* const task = std::get_if<LookAtPeers>(message);
    if (task == nullptr) continue;
    NodeChecks checks = co_await look_at_peers(io, *task);
    link->send(encode(DoctorMessage(std::move(checks))));
  }
  link->close();
  throw SystemError("node 0's doctor at " + link->peer_address() + " is gone: " + how +
                        ". See what it printed there.",
                    exit_code::kRendezvous);
}

Rendezvous meet(asio::io_context& io, const JobSpec& spec) {
  try {
    return hold_rendezvous(io, spec);
  } catch (const SystemError& error) {
    if (error.code() != exit_code::kRefused) throw;
    throw SystemError(std::string(error.what()) +
                          " This is ddp-launch doctor: start it on all nodes, before the job.",
                      exit_code::kRefused);
  }
}

}  // namespace

int run_doctor(JobSpec spec) {
  spec.user_run_id = kRunId;
  spec.random_user_run_id = false;
  spec.join_timeout = std::min<std::chrono::milliseconds>(spec.join_timeout, kDoctorPatience);
  asio::io_context io(1);
  Rendezvous rendezvous = meet(io, spec);
  std::optional<ChiefDoctor> chief;
  if (!rendezvous.link) chief.emplace(io, spec, rendezvous);
  DoctorEnd end;
  const auto keep = [&end](std::exception_ptr error, DoctorEnd result) {
    rethrow(error);
    end = std::move(result);
  };
  if (chief) {
    asio::co_spawn(io, chief->run(), keep);
  } else {
    asio::co_spawn(io, assist(io, spec, rendezvous.link), keep);
  }
  io.run();
  if (!spec.shares_console || chief) std::cout << clean(end.text) << std::flush;
  return end.exit_code;
}

}  // namespace ddp::launcher
