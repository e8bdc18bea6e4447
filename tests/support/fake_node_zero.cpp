#include "tests/support/fake_node_zero.h"

#include "launcher/plan/wire/message_codec.h"

namespace ddp::test {

using namespace launcher;
using std::chrono::milliseconds;

FakeNodeZero::FakeNodeZero()
    : acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
      port_(acceptor_.local_endpoint().port()),
      handshakes_(
          io_,
          Secret(),
          2,
          [](const std::string&) {},
          [this](const Hello& hello, std::shared_ptr<ControlLink> link) {
            meet(hello, std::move(link));
          }) {
  asio::co_spawn(io_, accept(), rethrow);
}

FakeNodeZero::~FakeNodeZero() {
  leave();
  acceptor_.close();
  handshakes_.close();
  io_.restart();
  io_.poll();
}

asio::awaitable<void> FakeNodeZero::accept() {
  while (acceptor_.is_open()) {
    auto [error, socket] = co_await acceptor_.async_accept(kResult);
    if (!error) handshakes_.admit(std::move(socket), "", "a node");
  }
}

void FakeNodeZero::meet(const Hello& hello, std::shared_ptr<ControlLink> link) {
  Welcome welcome;
  welcome.run_id = "fake-job";
  welcome.user_run_id = "none";
  welcome.host = "fake-zero";
  link->send(encode(welcome));
  workers_ = hello.nproc;
  link_ = std::move(link);
  link_->start(
      [this](std::string_view frame) {
        std::optional<NodeEvent> event = decode_event(frame);
        if (event) events_.push_back(std::move(*event));
        return event.has_value();
      },
      [](const std::string&) {});
}

bool FakeNodeZero::is_joined_within(milliseconds limit) {
  for (const auto end = Clock::now() + limit; !link_ && Clock::now() < end;)
    live_for(milliseconds(5));
  return link_ != nullptr;
}

void FakeNodeZero::send(const NodeCommand& command) {
  link_->send(encode(command));
}

StartRound FakeNodeZero::start_of(int round) const {
  StartRound start;
  start.round = round;
  start.node_rank = 1;
  start.workers_of_node = {1, workers_};
  start.role_of_node = {0, 0};
  start.master_port = port_;
  return start;
}

void FakeNodeZero::leave() {
  if (link_) link_->close();
}

void FakeNodeZero::live_for(milliseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    if (link_ && link_->is_open() && Clock::now() >= next_heartbeat_) {
      const auto now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
      send(Heartbeat{now, {}});
      next_heartbeat_ = Clock::now() + std::chrono::seconds(1);
    }
    io_.restart();
    io_.run_for(milliseconds(5));
  }
}

}  // namespace ddp::test
