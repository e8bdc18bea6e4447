// The nodes of a job as node 0's coordinator knows them: which have joined, by which link, how far
// each is in the round, and which are silent. It decides nothing about rounds; its events go to the
// coordinator's inbox. Our own node is one of them, without a link. plan/round/node_silence decides
// when a silent node is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/net/control_link.h"
#include "launcher/net/endpoint.h"
#include "launcher/net/handshake_server.h"
#include "launcher/os/asio.h"
#include "launcher/os/inbox.h"
#include "launcher/plan/output/line_limit.h"
#include "launcher/plan/round/clock_offset.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/round/node_silence.h"
#include "launcher/plan/round/node_table.h"
#include "launcher/plan/secret.h"
#include "launcher/run/console.h"

namespace ddp::launcher {

/// A node of the job, and how far it is in the round.
struct JobNode {
  int id = 0;  // in the node table
  std::string host;
  std::optional<int> asked_node_rank;
  std::shared_ptr<ControlLink> link;  // null: our own
  ClockOffset clock;
  NodeSilence silence;
  std::string gpu_error;  // from the kernel log, in any round; empty: none
  // In the round:
  int node_rank = -1;  // -1: waits for the next round
  std::size_t workers = 0;
  GroupBegin begin;
  std::vector<WorkerSample> samples;
  std::vector<std::vector<std::string>> last_lines;  // by sample, while wanted

  [[nodiscard]] bool is_in_round() const { return node_rank >= 0; }
  [[nodiscard]] std::string name() const;
  /// Takes what a reply shows of the node's clock.
  void note_reply(const HeartbeatReply& reply);
  /// When the node's own times of the round begin to count, measured from `round`.
  [[nodiscard]] std::chrono::nanoseconds offset_in_round(Clock::time_point round) const {
    return clock.offset_in_round(round, begin, /*is_own=*/!link);
  }
};

class NodeLinks {
 public:
  struct EventReceived {
    int id = 0;
    NodeEvent event;
  };
  struct NodeJoined {
    Hello hello;
    std::shared_ptr<ControlLink> link;
  };
  struct LinkLost {
    int id = 0;
    std::string how;
  };
  /// Before the first round: another agent is already node 0.
  struct OtherNodeZero {
    Refusal refusal;  // of that agent to us
  };
  /// Our own node is fenced.
  struct OwnNodeFenced {};
  using Event = std::variant<EventReceived, NodeJoined, LinkLost, OtherNodeZero, OwnNodeFenced>;
  using CommandOwnNode = std::function<void(const NodeCommand&)>;

  struct Config {
    Hello own;        // our own node's
    Welcome welcome;  // for nodes that join
    Secret token;
    bool takes_spares = false;
  };

  /// All arguments outlive it.
  NodeLinks(asio::io_context& io,
            Inbox<Event>& inbox,
            Console& console,
            Config config,
            CommandOwnNode command_own_node);
  NodeLinks(const NodeLinks&) = delete;
  NodeLinks& operator=(const NodeLinks&) = delete;

  /// Admits other nodes at `endpoint`, and watches them until close().
  void open(Endpoint& endpoint);

  /// Answers a node that asks to join, or only asks whether node 0 is here. Returns the refusal, if
  /// any. `has_begun`: a round has begun, for which the node is too late.
  std::optional<Refusal> admit(const NodeJoined& came, bool has_begun);
  /// Removes a node that is gone. Returns it as it was; null: it was removed before.
  std::unique_ptr<JobNode> remove(int id);
  /// A GPU of that node is broken: any other node that is there gets a place before it.
  void deprioritize(JobNode& node, const std::string& gpu_error);
  /// Gives node ranks to the nodes that are here and returns those with a place in that order, each
  /// reset for a new round. Warns of nodes with a broken GPU: which are left out, and which stay
  /// because no other is there.
  std::vector<JobNode*> assign_node_ranks();

  /// Null: not known.
  [[nodiscard]] JobNode* find(int id) const;
  [[nodiscard]] std::vector<JobNode*> in_round() const;
  /// The node of that node rank in the round; null: it is gone.
  [[nodiscard]] JobNode* at(int node_rank) const;
  [[nodiscard]] const NodeTable& table() const { return table_; }
  /// The address by which the nodes in the round reach us; empty: there are no others.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

  void send(const JobNode& node, const NodeCommand& command);
  void send_to_round(const NodeCommand& command);   // to all nodes in the round
  void send_to_others(const NodeCommand& command);  // to all nodes but our own
  /// Sends an extra heartbeat, whose answer shows the node's clock.
  void send_heartbeat(const JobNode& node);
  /// Shows the job's progress on the consoles of all nodes.
  void show(const std::vector<LinePart>& line);
  /// Whether the other nodes are to send the last lines of their workers.
  void want_lines(bool are_wanted) { wants_lines_ = are_wanted; }

  /// Sends the last command to every node, to our own last. Suspends: until each has it or cannot
  /// be reached.
  asio::awaitable<void> close(EndJob own, EndJob others);

 private:
  asio::awaitable<void> keep_heartbeat();
  [[nodiscard]] std::string heartbeat() const;
  asio::awaitable<void> dismiss(std::shared_ptr<ControlLink> link);
  void listen_to(JobNode& node);
  void print_broken_gpus();
  void print_refused(const std::string& text);

  asio::io_context& io_;
  Inbox<Event>& inbox_;
  Console& console_;
  const Config config_;
  const CommandOwnNode command_own_node_;
  NodeTable table_;
  std::map<int, std::unique_ptr<JobNode>> nodes_;  // by id
  Endpoint* endpoint_ = nullptr;                   // null: a job of one node
  std::unique_ptr<HandshakeServer> handshakes_;
  std::string own_address_;
  std::vector<LinePart> line_;
  bool wants_lines_ = false;
  asio::steady_timer heartbeat_timer_;
  bool is_closed_ = false;
  LineLimit refusals_;  // limits the printed refusals
};

/// The steady clock's time, as heartbeats carry it.
std::int64_t steady_ns();

}  // namespace ddp::launcher
