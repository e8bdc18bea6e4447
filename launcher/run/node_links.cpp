#include "launcher/run/node_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/text/units.h"
#include "launcher/plan/wire/message_codec.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kFlushWait(2);            // for the last command to reach a node
constexpr std::chrono::milliseconds kPollInterval(200);  // between two checks for silent nodes
constexpr std::chrono::seconds kRefusalPause(10);
constexpr int kMaxRefusals = 10;  // lines in that time

}  // namespace

std::int64_t steady_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

std::string JobNode::name() const {
  return name_node(is_in_round() ? std::optional<int>(node_rank) : std::nullopt, host);
}

void JobNode::note_reply(const HeartbeatReply& reply) {
  clock.note(reply.echo_ns, steady_ns(), reply.echo_age_ns, reply.sent_ns);
}

NodeLinks::NodeLinks(asio::io_context& io,
                     Inbox<Event>& inbox,
                     Console& console,
                     Config config,
                     CommandOwnNode command_own_node)
    : io_(io),
      inbox_(inbox),
      console_(console),
      config_(std::move(config)),
      command_own_node_(std::move(command_own_node)),
      table_(config_.own, config_.takes_spares),
      heartbeat_timer_(io),
      refusals_(kMaxRefusals, kRefusalPause) {
  auto own = std::make_unique<JobNode>();
  own->host = config_.own.host;
  nodes_.emplace(0, std::move(own));
}

void NodeLinks::open(Endpoint& endpoint) {
  endpoint_ = &endpoint;
  handshakes_ = std::make_unique<HandshakeServer>(
      io_,
      config_.token,
      config_.own.max_nodes,
      [this](const std::string& text) { console_.warning(text); },
      [this](const Hello& hello, const std::shared_ptr<ControlLink>& link) {
        inbox_.push(NodeJoined{hello, link});
      });
  endpoint.serve_agents(
      [this](tcp::socket socket, const std::string& bytes, const std::string& source) {
        handshakes_->admit(std::move(socket), bytes, source);
      });
  asio::co_spawn(io_, keep_heartbeat(), rethrow);
}

std::optional<Refusal> NodeLinks::admit(const NodeJoined& came, bool has_begun) {
  Hello hello = came.hello;
  hello.address = came.link->peer_address();
  // A node that knows the token may know the job. Others only read what they have sent themselves.
  const auto reader = config_.token.empty() ? NodeTable::Reader::anyone : NodeTable::Reader::ours;
  const NodeTable::Admission admission = table_.consider(hello, reader);
  if (!admission.joins) {
    // The verdict reports a problem of our own node.
    if (admission.refusal && config_.own.problem_code == 0) print_refused(admission.refusal->text);
    came.link->send(admission.answer ? encode(*admission.answer) : encode(config_.welcome));
    asio::co_spawn(io_, dismiss(came.link), rethrow);
    return admission.refusal;
  }
  auto node = std::make_unique<JobNode>();
  node->id = table_.add(hello);
  node->host = came.hello.host;
  node->asked_node_rank = came.hello.node_rank;
  node->link = came.link;
  came.link->send(encode(config_.welcome));
  send_heartbeat(*node);
  listen_to(*node);
  nodes_.emplace(node->id, std::move(node));
  console_.info(name_node(came.hello.node_rank, came.hello.host) + " has joined from " +
                came.link->peer_address() + ": " + std::to_string(table_.present()) + " of " +
                format_nodes(config_.own.min_nodes, config_.own.max_nodes) + " nodes" +
                (has_begun ? "; it enters at the next round" : "") +
                (hello.has_debugger ? "; a rank there has a terminal (--debug): no hang is looked "
                                      "for, and no round follows"
                                    : ""));
  const auto file_name = [](const std::string& entry) {
    return entry.substr(entry.rfind('/') + 1);
  };
  if (file_name(came.hello.entry) != file_name(config_.own.entry)) {
    console_.warning(name_node(came.hello.node_rank, came.hello.host) + " starts " +
                     came.hello.entry + ", this node starts " + config_.own.entry + ".");
  }
  return std::nullopt;
}

void NodeLinks::print_refused(const std::string& text) {
  const LineLimit::Show show = refusals_.count_line(Clock::now());
  if (show != LineLimit::Show::nothing) console_.warning("refused: " + text);
  if (show == LineLimit::Show::last_line)
    console_.warning("further ones are not shown for a while.");
}

void NodeLinks::listen_to(JobNode& node) {
  const int id = node.id;
  node.link->start(
      [this, id](std::string_view frame) {
        // Use the id, not the node: the node may be gone while this event waits in the inbox.
        std::optional<NodeEvent> event = decode_event(frame);
        if (event) inbox_.push(EventReceived{id, std::move(*event)});
        return event.has_value();
      },
      [this, id](const std::string& how) {
        inbox_.push(LinkLost{id, "its agent is gone (" + how + ")"});
      });
}

/// Waits until the answer is sent, and closes the link.
asio::awaitable<void> NodeLinks::dismiss(std::shared_ptr<ControlLink> link) {
  co_await link->flush(Clock::now() + kFlushWait);
  link->close();
}

std::unique_ptr<JobNode> NodeLinks::remove(int id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return nullptr;
  std::unique_ptr<JobNode> node = std::move(found->second);
  nodes_.erase(found);
  table_.remove(id);
  node->link->close();
  // Its workers must not reach the store any more. But another node may have the same address: two
  // agents on one machine, or nodes behind one translated address.
  const std::string& address = node->link->peer_address();
  const bool has_others = std::ranges::any_of(nodes_, [&](const auto& entry) {
    return entry.second->link && entry.second->link->peer_address() == address;
  });
  if (!has_others) endpoint_->forbid(address);
  return node;
}

std::vector<JobNode*> NodeLinks::assign_node_ranks() {
  const std::vector<int> ids = table_.assign_node_ranks();
  for (const auto& [id, node] : nodes_)
    node->node_rank = -1;
  std::vector<JobNode*> nodes;
  own_address_.clear();
  std::set<std::string> addresses;
  for (const int id : ids) {
    JobNode& node = *nodes_.at(id);
    node.node_rank = static_cast<int>(nodes.size());
    node.workers = static_cast<std::size_t>(table_.find(id).hello.nproc);
    node.samples.clear();
    node.begin = GroupBegin();
    nodes.push_back(&node);
    if (!node.link) continue;
    addresses.insert(node.link->peer_address());
    // Take an address by which one of them reached us; loopback only if all nodes share our
    // machine.
    const bool is_loopback = asio::ip::make_address(node.link->own_address()).is_loopback();
    if (own_address_.empty() || !is_loopback) own_address_ = node.link->own_address();
  }
  print_broken_gpus();
  // A node that waits for a place has no worker, so it may not use the store.
  if (endpoint_ != nullptr) endpoint_->allow_only(addresses);
  return nodes;
}

void NodeLinks::deprioritize(JobNode& node, const std::string& gpu_error) {
  node.gpu_error = gpu_error;
  table_.deprioritize(node.id);
}

void NodeLinks::print_broken_gpus() {
  for (const auto& [id, node] : nodes_) {
    if (node->gpu_error.empty()) continue;
    const std::string what = "a GPU of it is broken, as its kernel log says: " + node->gpu_error;
    console_.warning(node->name() +
                     (node->is_in_round() ? " stays, as no other node is there to take its place: "
                                          : " is left out, as another node takes its place: ") +
                     what);
  }
}

JobNode* NodeLinks::find(int id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

std::vector<JobNode*> NodeLinks::in_round() const {
  std::vector<JobNode*> nodes;
  for (const auto& [id, node] : nodes_)
    if (node->is_in_round()) nodes.push_back(node.get());
  return nodes;
}

JobNode* NodeLinks::at(int node_rank) const {
  for (const auto& [id, node] : nodes_)
    if (node->node_rank == node_rank) return node.get();
  return nullptr;
}

void NodeLinks::show(const std::vector<LinePart>& line) {
  console_.live(line);
  line_ = line;
}

void NodeLinks::send(const JobNode& node, const NodeCommand& command) {
  if (node.link) {
    node.link->send(encode(command));
  } else {
    command_own_node_(command);
  }
}

void NodeLinks::send_to_round(const NodeCommand& command) {
  for (JobNode* const node : in_round())
    send(*node, command);
}

std::string NodeLinks::heartbeat() const {
  return encode(NodeCommand(Heartbeat{steady_ns(), line_, wants_lines_}));
}

void NodeLinks::send_heartbeat(const JobNode& node) {
  if (node.link) node.link->send_heartbeat(heartbeat());
}

void NodeLinks::send_to_others(const NodeCommand& command) {
  const std::string text = encode(command);  // encoded once: an EndJob may have 64 KiB
  for (const auto& [id, node] : nodes_)
    if (node->link) node->link->send(text);
}

/// Sends a heartbeat once a second, and checks more often for silent nodes: 5 s of silence must be
/// noticed before 6 s have passed.
asio::awaitable<void> NodeLinks::keep_heartbeat() {
  Clock::time_point next_heartbeat = Clock::now();
  while (!is_closed_) {
    const Clock::time_point now = Clock::now();
    const bool is_due = now >= next_heartbeat;
    if (is_due) next_heartbeat = now + kHeartbeat;
    const std::string text = heartbeat();  // encoded once: up to 1,249 nodes get the same
    for (const auto& [id, node] : nodes_) {
      if (!node->link) continue;
      const Clock::time_point heard = node->link->last_heard();
      if (NodeSilence::is_lost(heard, now)) {
        inbox_.push(LinkLost{id, "silent for " + format_seconds(now - heard) + node->link->hint()});
        continue;
      }
      if (is_due) node->link->send_heartbeat(text);
      if (const auto quiet = node->silence.note_heard(heard, now))
        console_.warning(node->name() + " was silent for " + format_seconds(*quiet));
    }
    heartbeat_timer_.expires_after(kPollInterval);
    co_await heartbeat_timer_.async_wait(kResult);
  }
}

asio::awaitable<void> NodeLinks::close(EndJob own, EndJob others) {
  is_closed_ = true;
  heartbeat_timer_.cancel();
  if (handshakes_) {
    // Send to all, then wait once for all, so that a slow or silent node does not delay the others.
    send_to_others(others);
    const Deadline deadline = Clock::now() + kFlushWait;
    for (const auto& [id, node] : nodes_) {
      if (!node->link) continue;
      co_await node->link->flush(deadline);
      node->link->close();
    }
    handshakes_->close();
  }
  // Our own agent comes last: its exit ends the process, and with it anything the links still send.
  command_own_node_(own);
}

}  // namespace ddp::launcher
