// Node 0 of `ddp-launch doctor`, or the only node: waits for the others, has all of them look at
// once, and makes the diagnosis. Promises: it ends, no matter who is silent: it waits for others as
// long as the job may take to join, then looks at who is there, and gives each look a deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/net/control_link.h"
#include "launcher/net/endpoint.h"
#include "launcher/net/handshake_server.h"
#include "launcher/net/peer_check.h"
#include "launcher/net/store_server.h"
#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/doctor/doctor_codec.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/node_table.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/run/rendezvous.h"

namespace ddp::launcher {

/// Of every node of doctor: so an agent that starts a job is told that it has come to the wrong
/// one.
inline constexpr const char* kDoctorRunId = "ddp-launch doctor";

class DoctorCoordinator {
 public:
  /// Takes the listeners of the rendezvous, if there are other nodes. `io` and `spec` outlive it.
  DoctorCoordinator(asio::io_context& io, const JobSpec& spec, Rendezvous& rendezvous);
  DoctorCoordinator(const DoctorCoordinator&) = delete;
  DoctorCoordinator& operator=(const DoctorCoordinator&) = delete;

  /// Suspends: until the diagnosis is made and the others have it, or are gone.
  asio::awaitable<DoctorEnd> run();

 private:
  struct HelloCame {
    Hello hello;
    std::shared_ptr<ControlLink> link;
  };
  struct LinkLost {
    std::string how;
  };
  struct NodeTold {
    int id = 0;
    std::variant<DoctorMessage, LinkLost> what;
  };
  using Event = std::variant<HelloCame, NodeTold, NodeChecks>;  // the last: our own
  struct Node {
    std::shared_ptr<ControlLink> link;
    std::optional<NodeHealth> health;
  };

  [[nodiscard]] bool all_have_told() const;
  asio::awaitable<void> gather();
  void note(const Event& event);
  [[nodiscard]] std::optional<Refusal> why_not(const Hello& hello) const;
  void admit(const HelloCame& came);
  static asio::awaitable<void> dismiss(std::shared_ptr<ControlLink> link);
  void assign_node_ranks();
  asio::awaitable<void> probe(std::int64_t bytes);
  asio::awaitable<void> look_ourselves(std::int64_t bytes);
  void take(const NodeChecks& checks);
  DoctorEnd conclude();

  asio::io_context& io_;
  const JobSpec& spec_;
  const Welcome welcome_;
  NodeTable table_;
  Inbox<Event> inbox_;
  StoreServer store_;  // of no worker: the port has one
  std::optional<Endpoint> endpoint_;
  std::optional<HandshakeServer> handshakes_;
  NodeHealth own_;
  std::optional<PeerListener> listener_;
  std::map<int, Node> nodes_;  // the others, by id
  bool is_looking_ = false;
  std::vector<NodeHealth> healths_;
  std::vector<PeerPlace> places_;     // of the same
  std::map<int, NodeChecks> checks_;  // by node rank
  std::size_t answers_ = 0;
};

}  // namespace ddp::launcher
