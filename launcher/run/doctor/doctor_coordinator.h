// Node 0 of `ddp-launch doctor`, or the only node: waits for the others, has all of them run their
// checks at once, and makes the diagnosis.
// Promises: it ends, even if nodes are silent. It waits for others at most as long as a job waits
// for nodes to join, then checks the nodes that are there, and gives each check a deadline.
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

/// The run id of every doctor node, so that an agent that starts a job is refused.
inline constexpr const char* kDoctorRunId = "ddp-launch doctor";

class DoctorCoordinator {
 public:
  /// Takes over the listeners of the rendezvous, if there are other nodes. `own` is of
  /// check_node(). `io` and `spec` outlive it.
  DoctorCoordinator(asio::io_context& io,
                    const JobSpec& spec,
                    Rendezvous& rendezvous,
                    NodeHealth own);
  DoctorCoordinator(const DoctorCoordinator&) = delete;
  DoctorCoordinator& operator=(const DoctorCoordinator&) = delete;

  /// Returns the diagnosis. Suspends: until it is made, and the others have it or are gone.
  asio::awaitable<DoctorEnd> run();

 private:
  struct HelloCame {
    Hello hello;
    std::shared_ptr<ControlLink> link;
  };
  struct LinkLost {
    std::string how;
  };
  struct NodeReported {
    int id = 0;
    std::variant<DoctorMessage, LinkLost> what;
  };
  using Event = std::variant<HelloCame, NodeReported, NodeChecks>;  // NodeChecks: our own
  struct Node {
    std::shared_ptr<ControlLink> link;
    std::optional<NodeHealth> health;
  };

  [[nodiscard]] bool all_have_reported() const;
  asio::awaitable<void> gather();
  void note(const Event& event);
  [[nodiscard]] std::optional<Refusal> why_not(const Hello& hello) const;
  void admit(const HelloCame& came);
  static asio::awaitable<void> dismiss(std::shared_ptr<ControlLink> link);
  void assign_node_ranks();
  asio::awaitable<void> check_nodes(std::int64_t bytes);
  asio::awaitable<void> check_own_node(std::int64_t bytes);
  void take(const NodeChecks& checks);
  DoctorEnd conclude();

  asio::io_context& io_;
  const JobSpec& spec_;
  const Welcome welcome_;
  NodeTable table_;
  Inbox<Event> inbox_;
  StoreServer store_;  // unused; the port needs one
  std::optional<Endpoint> endpoint_;
  std::optional<HandshakeServer> handshakes_;
  NodeHealth own_;
  std::optional<PeerListener> listener_;
  std::map<int, Node> nodes_;  // the other nodes, by id
  bool is_checking_ = false;
  std::vector<NodeHealth> healths_;
  std::vector<PeerAddress> addresses_;  // of the same nodes
  std::map<int, NodeChecks> checks_;    // by node rank
  std::size_t answers_ = 0;
};

}  // namespace ddp::launcher
