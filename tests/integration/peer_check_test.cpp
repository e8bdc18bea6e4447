// Two nodes try each other's ports, in one loop; and what answers wrongly or not at all.
#include "launcher/net/peer_check.h"

#include <gmock/gmock.h>

#include <boost/asio/write.hpp>

#include "common/error.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class PeerCheckTest : public testing::Test {
 protected:
  PeerCheck check(const std::string& address, int port, std::int64_t bytes) {
    PeerAddress peer;
    peer.node_rank = 3;
    peer.address = address;
    peer.port = port;
    PeerCheck result;
    bool is_done = false;
    asio::co_spawn(
        io_, check_peer(io_, peer, bytes), [&](std::exception_ptr error, PeerCheck found) {
          rethrow(error);
          result = std::move(found);
          is_done = true;
        });
    io_.restart();
    const Deadline deadline = Clock::now() + 60s;
    while (!is_done && Clock::now() < deadline)
      io_.run_one_for(100ms);
    EXPECT_TRUE(is_done);
    return result;
  }

  asio::io_context io_{1};
};

TEST_F(PeerCheckTest, ANodeThatListensIsReachedAndMeasured) {
  for (const char* const address : {"127.0.0.1", "::1"}) {
    PeerListener listener(io_, address);
    listener.start();
    const PeerCheck found = check(address, listener.port(), 8 << 20);
    EXPECT_EQ(found.error, "");
    EXPECT_EQ(found.node_rank, 3);
    EXPECT_GT(found.round_trip, 0ns);
    EXPECT_LT(found.round_trip, 1s);
    EXPECT_LT(std::chrono::abs(found.clock_ahead), 1s);
    EXPECT_GT(found.bytes_per_second, 1e6);
    const PeerCheck again = check(address, listener.port(), 0);
    EXPECT_EQ(again.error, "");
    EXPECT_EQ(again.bytes_per_second, 0);
    listener.close();
    io_.restart();
    io_.run_for(10s);
    EXPECT_TRUE(io_.stopped()) << "something is still under way";
  }
}

TEST_F(PeerCheckTest, AClosedPortIsNamedAsSuch) {
  int port = 0;
  {
    PeerListener listener(io_, "127.0.0.1");
    port = listener.port();
  }
  EXPECT_EQ(check("127.0.0.1", port, 0).error, "Connection refused");
}

TEST_F(PeerCheckTest, SilentPeerTimesOutAfterFiveSeconds) {
  tcp::acceptor silent(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(check("127.0.0.1", silent.local_endpoint().port(), 0).error, "no answer within 5 s");
  EXPECT_LT(Clock::now() - begin, 8s);
}

TEST_F(PeerCheckTest, ClientWithWrongMagicIsDisconnected) {
  PeerListener listener(io_, "127.0.0.1");
  listener.start();
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n"), "ddpcheck" + std::string(8, '\xff')}) {
    tcp::socket socket(io_);
    socket.connect(tcp::endpoint(asio::ip::address_v4::loopback(),
                                 static_cast<std::uint16_t>(listener.port())));
    asio::write(socket, asio::buffer(words));
    bool is_closed = false;
    char byte = 0;
    socket.async_read_some(
        asio::buffer(&byte, 1),
        [&](const boost::system::error_code& error, std::size_t) { is_closed = bool(error); });
    io_.restart();
    const Deadline deadline = Clock::now() + 10s;
    while (!is_closed && Clock::now() < deadline)
      io_.run_one_for(100ms);
    EXPECT_TRUE(is_closed) << words;
  }
  listener.close();
}

TEST_F(PeerCheckTest, AnAddressThatIsNotOursIsNotListenedAt) {
  EXPECT_THROW(PeerListener(io_, "192.0.2.1"), SystemError);
  EXPECT_THROW(PeerListener(io_, "nonsense"), SystemError);
}

}  // namespace
}  // namespace ddp::launcher
