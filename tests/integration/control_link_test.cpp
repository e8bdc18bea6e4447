// Two agents over real sockets, in one loop and without a launcher; and what is not an agent.
#include "launcher/net/control_link.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kLinkLimit = 20s;

class ControlLinkTest : public testing::Test {
 protected:
  /// Turns the loop until `done`, or the limit: then false.
  template <typename Done>
  bool turn_until(Done done) {
    const Deadline deadline = Clock::now() + kLinkLimit;
    while (!done() && Clock::now() < deadline)
      turn_for(10ms);
    return done();
  }
  void turn_for(std::chrono::milliseconds time) {
    io_.restart();  // it had nothing left to do
    io_.run_for(time);
  }
  /// Both ends of a connection.
  std::pair<tcp::socket, tcp::socket> connect() {
    tcp::acceptor acceptor(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    tcp::socket one(io_);
    one.connect(acceptor.local_endpoint());
    return {std::move(one), acceptor.accept()};
  }
  /// Notes all that comes over `link`.
  void listen(ControlLink& link) {
    link.start(
        [this](std::string_view frame) {
          frames_.emplace_back(frame);
          return frame != "nonsense";
        },
        [this](const std::string& why) { gone_.push_back(why); });
  }
  /// The loop ends by itself: nothing is left to do.
  void TearDown() override {
    turn_for(kLinkLimit);
    EXPECT_TRUE(io_.stopped()) << "something is still under way";
  }

  asio::io_context io_{1};
  std::vector<std::string> frames_;
  std::vector<std::string> gone_;
};

TEST_F(ControlLinkTest, FramesComeInOrderAndTheEndIsToldOnce) {
  auto [mine, its] = connect();
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  const auto peer = std::make_shared<ControlLink>(std::move(its));
  listen(*link);
  EXPECT_EQ(link->peer_address(), "127.0.0.1");
  EXPECT_EQ(link->own_address(), "127.0.0.1");
  const std::string large(kLongestFrame, 'x');
  peer->send("one");
  peer->send(large);
  peer->send("two");
  EXPECT_TRUE(turn_until([&] { return frames_.size() == 3; }));
  EXPECT_THAT(frames_, ElementsAre("one", large, "two"));
  EXPECT_LT(Clock::now() - link->last_heard(), kLinkLimit);
  peer->close();
  EXPECT_TRUE(turn_until([&] { return !gone_.empty(); }));
  EXPECT_THAT(gone_, ElementsAre("closed by the other side"));
  EXPECT_FALSE(link->is_open());
  link->send("too late");
}

TEST_F(ControlLinkTest, NoCallbackComesAfterClose) {
  auto [mine, its] = connect();
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  const auto peer = std::make_shared<ControlLink>(std::move(its));
  listen(*link);
  peer->send("unread");
  link->close();
  link->close();
  peer->close();
  turn_for(kLinkLimit);
  EXPECT_THAT(frames_, IsEmpty());
  EXPECT_THAT(gone_, IsEmpty());
}

TEST_F(ControlLinkTest, NonsenseEndsTheLink) {
  auto [mine, its] = connect();
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  const auto peer = std::make_shared<ControlLink>(std::move(its));
  listen(*link);
  peer->send("nonsense");
  peer->send("after that");
  EXPECT_TRUE(turn_until([&] { return !gone_.empty(); }));
  EXPECT_THAT(frames_, ElementsAre("nonsense"));
  EXPECT_THAT(gone_, ElementsAre(HasSubstr("not a message of this version")));
  peer->close();
}

// Where large packets vanish (case N11), heartbeats are what shows it. The network is in its fault
// test.
TEST_F(ControlLinkTest, AHeartbeatIsAsLargeAsAPacketUnlessTheLastOneIsUnderWay) {
  auto [mine, its] = connect();
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  const auto peer = std::make_shared<ControlLink>(std::move(its));
  listen(*link);
  peer->send_heartbeat("{}");
  peer->send_heartbeat("{}");
  EXPECT_TRUE(turn_until([&] { return frames_.size() == 2; }));
  EXPECT_GE(frames_[0].size(), 9000U);  // the loopback's packets are larger still
  EXPECT_LE(frames_[0].size(), 9100U);
  EXPECT_EQ(frames_[0].substr(0, 3), "{} ");
  EXPECT_EQ(frames_[1], "{}");
  const std::string large(20000, 'x');
  turn_for(100ms);
  peer->send_heartbeat(large);
  EXPECT_TRUE(turn_until([&] { return frames_.size() == 3; }));
  EXPECT_EQ(frames_[2], large);
  EXPECT_EQ(link->hint(), "");
  link->close();
  EXPECT_EQ(link->hint(), "");
  peer->close();
}

// Case C11: a length of 0, 2^31, 2^32-1.
TEST_F(ControlLinkTest, C11_ALengthThatNoFrameHasEndsTheLink) {
  for (const std::string& head :
       {std::string(4, '\0'), std::string("\x80\0\0\0", 4), std::string("\xff\xff\xff\xff")}) {
    gone_.clear();
    auto [mine, its] = connect();
    const auto link = std::make_shared<ControlLink>(std::move(mine));
    listen(*link);
    its.send(asio::buffer(head));
    EXPECT_TRUE(turn_until([&] { return !gone_.empty(); }));
    EXPECT_THAT(gone_, ElementsAre(HasSubstr("not a frame")));
  }
  EXPECT_THAT(frames_, IsEmpty());
}

// Case N6: a peer that does not read holds 4 MiB at most, and is dropped.
TEST_F(ControlLinkTest, N6_APeerThatDoesNotReadIsDropped) {
  auto [mine, its] = connect();
  its.set_option(asio::socket_base::receive_buffer_size(4096));
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  listen(*link);
  const std::string frame(100'000, 'x');
  std::size_t sent = 0;
  while (link->is_open() && sent < 64'000'000) {
    link->send(frame);
    sent += frame.size();
  }
  EXPECT_FALSE(link->is_open());
  EXPECT_GT(sent, ControlLink::kMaxQueued);
  EXPECT_THAT(gone_, IsEmpty()) << "not from within send()";
  EXPECT_TRUE(turn_until([&] { return !gone_.empty(); }));
  EXPECT_THAT(gone_, ElementsAre(HasSubstr("does not read")));
}

TEST_F(ControlLinkTest, FramesSentBeforeAResetAreStillRead) {
  auto [mine, its] = connect();
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  its.send(asio::buffer(frame_head(7) + "verdict"));
  link->send("heartbeat");
  turn_for(1ms);
  its.set_option(asio::socket_base::linger(true, 0));
  its.close();  // with the heartbeat unread: a reset
  for (int i = 0; i < 3; ++i)
    link->send("another heartbeat");
  EXPECT_TRUE(link->is_open());
  listen(*link);
  EXPECT_TRUE(turn_until([&] { return !gone_.empty(); }));
  EXPECT_THAT(frames_, ElementsAre("verdict"));
}

asio::awaitable<void> flush(std::shared_ptr<ControlLink> link, Deadline deadline, bool& is_done) {
  co_await link->flush(deadline);
  is_done = true;
}

TEST_F(ControlLinkTest, FlushWaitsUntilTheOtherKernelHasEverything) {
  auto [mine, its] = connect();
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  const std::string large(kLongestFrame, 'x');
  for (int i = 0; i < 3; ++i)
    link->send(large);
  link->send("the last");
  bool is_done = false;
  const Deadline deadline = Clock::now() + kLinkLimit;
  asio::co_spawn(io_, flush(link, deadline, is_done), rethrow);
  turn_for(100ms);
  EXPECT_FALSE(is_done) << "nobody has read";
  const auto peer = std::make_shared<ControlLink>(std::move(its));
  listen(*peer);
  EXPECT_TRUE(turn_until([&] { return is_done; }));
  link->close();
  EXPECT_TRUE(turn_until([&] { return !gone_.empty(); }));
  ASSERT_EQ(frames_.size(), 4U);
  EXPECT_EQ(frames_.back(), "the last");
}

TEST_F(ControlLinkTest, FlushEndsAtItsDeadline) {
  auto [mine, its] = connect();
  const auto link = std::make_shared<ControlLink>(std::move(mine));
  const std::string large(kLongestFrame, 'x');
  for (int i = 0; i < 4; ++i)
    link->send(large);
  bool is_done = false;
  const Deadline deadline = Clock::now() + 50ms;
  asio::co_spawn(io_, flush(link, deadline, is_done), rethrow);
  EXPECT_TRUE(turn_until([&] { return is_done; }));
  EXPECT_GE(Clock::now(), deadline);
  link->close();
}

}  // namespace
}  // namespace ddp::launcher
