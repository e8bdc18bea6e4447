// Whose a connection of this node is, over real sockets and by both sources.
#include "launcher/os/peer_user.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/ip/v6_only.hpp>

#include "tests/support/other_user.h"

namespace ddp::launcher {
namespace {

using test::can_be_other_user;
using test::kOtherUser;
using test::OtherUser;

/// By netlink, and by the files.
class PeerUser : public testing::TestWithParam<bool> {
 protected:
  PeerUsers::Owner look(const tcp::socket& accepted) {
    return users_.owner_of(accepted.remote_endpoint(), accepted.local_endpoint());
  }
  /// Another user connects, says one byte, and stays until the test closes its end.
  int stay() {
    asio::io_context io;
    tcp::socket socket(io);
    boost::system::error_code error;
    socket.connect(acceptor_.local_endpoint(), error);
    char byte = 'x';
    socket.send(asio::buffer(&byte, 1), 0, error);
    socket.receive(asio::buffer(&byte, 1), 0, error);
    return 0;
  }

  PeerUsers users_ = GetParam() ? PeerUsers::from_files() : PeerUsers();
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
};

TEST_P(PeerUser, OurOwnSocketIsOurs) {
  tcp::socket mine(io_);
  mine.connect(acceptor_.local_endpoint());
  const tcp::socket accepted = acceptor_.accept();
  const PeerUsers::Owner found = look(accepted);
  EXPECT_TRUE(found.can_tell);
  EXPECT_EQ(found.user, ::geteuid());
}

TEST_P(PeerUser, A3_AnotherUsersSocketIsTheirs) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  const OtherUser other([this] { return stay(); });
  const tcp::socket accepted = acceptor_.accept();
  EXPECT_EQ(look(accepted).user, kOtherUser);
}

// The kernel shows it as root's.
TEST_P(PeerUser, A3_ASocketThatNobodyHoldsAnyMoreIsNobodys) {
  std::optional<tcp::socket> mine(io_);
  mine->connect(acceptor_.local_endpoint());
  const tcp::socket accepted = acceptor_.accept();
  EXPECT_TRUE(look(accepted).user);
  mine.reset();
  EXPECT_EQ(look(accepted).user, std::nullopt);
  EXPECT_TRUE(look(accepted).can_tell);
}

// Somebody who listens at the port that a closed connection came from is not its other end.
TEST_P(PeerUser, A3_LaterListenerAtThatPortIsNotTakenForTheClient) {
  const tcp::endpoint to = acceptor_.local_endpoint();
  std::optional<tcp::acceptor> listener;
  for (int tries = 0; !listener && tries < 20; ++tries) {
    tcp::socket mine(io_);
    mine.connect(to);
    const tcp::socket accepted = acceptor_.accept();
    const tcp::endpoint from = mine.local_endpoint();
    mine.set_option(asio::socket_base::linger(true, 0));
    mine.close();  // a reset: nothing of it is left
    try {
      listener.emplace(io_, from);
    } catch (const boost::system::system_error&) {
      continue;  // somebody else has got that port in the meantime
    }
    const PeerUsers::Owner found = users_.owner_of(from, to);
    EXPECT_TRUE(found.can_tell);
    EXPECT_EQ(found.user, std::nullopt);
  }
  EXPECT_TRUE(listener);
}

TEST_P(PeerUser, ASocketOfIPv6ThatSpeaksIPv4IsFound) {
  boost::system::error_code error;
  tcp::socket mine(io_);
  mine.open(tcp::v6(), error);
  if (!error) mine.set_option(asio::ip::v6_only(false), error);
  const asio::ip::address_v6 mapped =
      asio::ip::make_address_v6(asio::ip::v4_mapped, asio::ip::address_v4::loopback());
  if (!error) mine.connect(tcp::endpoint(mapped, acceptor_.local_endpoint().port()), error);
  if (error) GTEST_SKIP() << "no IPv6 here: " << error.message();
  const tcp::socket accepted = acceptor_.accept();
  EXPECT_EQ(look(accepted).user, ::geteuid());
}

TEST_P(PeerUser, ASocketOfIPv6IsFound) {
  boost::system::error_code error;
  tcp::acceptor acceptor(io_);
  acceptor.open(tcp::v6(), error);
  if (!error) acceptor.bind(tcp::endpoint(asio::ip::address_v6::loopback(), 0), error);
  if (error) GTEST_SKIP() << "no IPv6 here: " << error.message();
  acceptor.listen();
  tcp::socket mine(io_);
  mine.connect(acceptor.local_endpoint());
  const tcp::socket accepted = acceptor.accept();
  EXPECT_EQ(look(accepted).user, ::geteuid());
}

INSTANTIATE_TEST_SUITE_P(, PeerUser, testing::Bool(), [](const auto& chosen) {
  return std::string(chosen.param ? "ByFiles" : "ByNetlink");
});

TEST(DescribeUser, AUserHasANumberAndMayHaveAName) {
  EXPECT_EQ(describe_user(0), "0 (root)");
  EXPECT_EQ(describe_user(4294967000U), "4294967000");
}

}  // namespace
}  // namespace ddp::launcher
