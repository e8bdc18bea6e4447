#include "tests/support/fake_node.h"

#include <signal.h>
#include <unistd.h>

#include "common/version.h"
#include "launcher/plan/wire/message_codec.h"

namespace ddp::test {

using namespace launcher;
using std::chrono::milliseconds;

namespace {

std::int64_t to_ns(Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

}  // namespace

int free_port() {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  return acceptor.local_endpoint().port();
}

FakeNode::FakeNode(int port, int workers) : workers_(workers) {
  JoinPlan plan;
  plan.host = "127.0.0.1";
  plan.port = port;
  plan.limit = std::chrono::seconds(20);
  plan.hello.version = DDP_VERSION;
  plan.hello.user_run_id = "none";
  plan.hello.node_rank = rank_;
  plan.hello.min_nodes = 2;
  plan.hello.max_nodes = 2;
  plan.hello.nproc = workers_;
  plan.hello.host = "fake-node";
  plan.hello.pid = ::getpid();
  plan.hello.entry = "fake-node";
  asio::co_spawn(io_, enter(plan), rethrow);
  while (!link_)
    io_.run_one();
  began_ = Clock::now();
}

FakeNode::~FakeNode() {
  link_->close();
  io_.poll();
}

asio::awaitable<void> FakeNode::enter(JoinPlan plan) {
  const std::function<void(const std::string&)> unheard = [](const std::string&) {};
  Joined joined = co_await join(io_, std::move(plan), unheard);
  link_ = joined.link;
  const auto take = [this](std::string_view frame) {
    const std::optional<NodeCommand> command = decode_command(frame);
    if (!command) return false;
    if (const auto* const heartbeat = std::get_if<Heartbeat>(&*command)) {
      heard_ = *heartbeat;
      heard_at_ = Clock::now();
    }
    commands_.push_back(*command);
    return true;
  };
  link_->start(take, [this](const std::string& why) { why_gone_ = why; });
}

void FakeNode::send(const NodeEvent& event) {
  link_->send(encode(event));
}

WorkerEnded FakeNode::exited(int round, int local_rank, ExitStatus status) const {
  WorkerEnded exited;
  exited.round = round;
  exited.worker.pid = 1000 + local_rank;
  exited.worker.local_rank = local_rank;
  exited.worker.ending.rank = 1 + local_rank;  // node 0 has one worker
  exited.worker.ending.status = status;
  exited.worker.ending.at = Clock::now() - began_;
  return exited;
}

GroupEnded FakeNode::group_ended(int round, ExitStatus status) const {
  GroupEnded ended;
  ended.round = round;
  for (int i = 0; i < workers_; ++i) {
    WorkerReport report = exited(round, i, status).worker;
    report.ending.stop_sent = status.signal == SIGTERM;
    report.node_rank = rank_;
    report.host = "fake-node";
    ended.workers.push_back(report);
  }
  return ended;
}

void FakeNode::live_for(milliseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    if (Clock::now() >= next_heartbeat_ && link_->is_open()) {
      HeartbeatReply heartbeat;
      heartbeat.sent_ns = to_ns(Clock::now());
      if (heard_) {
        heartbeat.echo_ns = heard_->sent_ns;
        heartbeat.echo_age_ns = heartbeat.sent_ns - to_ns(heard_at_);
      }
      send(heartbeat);
      next_heartbeat_ = Clock::now() + std::chrono::seconds(1);
    }
    io_.restart();
    io_.run_for(milliseconds(5));
  }
}

bool FakeNode::is_gone_within(milliseconds limit) {
  for (const auto end = Clock::now() + limit; why_gone_.empty() && Clock::now() < end;)
    live_for(milliseconds(10));
  return !why_gone_.empty();
}

}  // namespace ddp::test
