// A man in the middle alters, drops or replays frames between two agents, over real sockets.
#include <boost/asio/write.hpp>
#include <functional>

#include "tests/integration/handshake_server_test.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Between a node and node 0: takes what one says whole frames at a time, and hands on what
/// `alter` makes of them. The opening is handed on as it is, or as `opening` makes it.
class RelayTest : public HandshakeServerTest {
 protected:
  using Frames = std::vector<std::string>;
  using Alter = std::function<Frames(const std::string& frame, int number, bool from_node)>;

  struct Way {
    std::shared_ptr<tcp::socket> from;
    std::shared_ptr<tcp::socket> to;
    bool from_node = false;
    std::string bytes;
    bool has_opened = false;
    int number = 0;
  };

  void relay(const std::string& token,
             Alter alter,
             std::function<void(std::string&)> opening = {}) {
    open(token);
    alter_ = std::move(alter);
    alter_opening_ = std::move(opening);
    relay_.emplace(io_, tcp::endpoint(kLoopback, 0));
    take_node();
  }
  void take_node() {
    relay_->async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (error) return;
      const auto node = std::make_shared<tcp::socket>(std::move(socket));
      const auto zero = std::make_shared<tcp::socket>(io_);
      zero->connect(acceptor_->local_endpoint());
      sockets_.push_back(node);
      sockets_.push_back(zero);
      carry(std::make_shared<Way>(Way{node, zero, true, "", false, 0}));
      carry(std::make_shared<Way>(Way{zero, node, false, "", true, 0}));
      take_node();
    });
  }
  void carry(std::shared_ptr<Way> way) {
    const auto room = std::make_shared<std::array<char, 65536>>();
    way->from->async_read_some(
        asio::buffer(*room),
        [this, way, room](const boost::system::error_code& error, std::size_t size) {
          boost::system::error_code ignored;
          if (error) {
            way->to->shutdown(tcp::socket::shutdown_send, ignored);
            return;
          }
          way->bytes.append(room->data(), size);
          hand_on(*way);
          carry(way);
        });
  }
  void hand_on(Way& way) {
    boost::system::error_code ignored;
    if (!way.has_opened && way.bytes.size() >= kAgentOpeningBytes) {
      std::string opening = way.bytes.substr(0, kAgentOpeningBytes);
      if (alter_opening_) alter_opening_(opening);
      asio::write(*way.to, asio::buffer(opening), ignored);
      way.bytes.erase(0, kAgentOpeningBytes);
      way.has_opened = true;
    }
    while (way.has_opened && way.bytes.size() >= kFrameHeadBytes) {
      const std::size_t size = read_frame_head(way.bytes, kLongestSealed).value_or(0);
      if (way.bytes.size() < kFrameHeadBytes + size) break;
      const std::string frame = way.bytes.substr(kFrameHeadBytes, size);
      way.bytes.erase(0, kFrameHeadBytes + size);
      for (const std::string& altered : alter_(frame, way.number, way.from_node))
        asio::write(*way.to, asio::buffer(frame_head(altered.size()) + altered), ignored);
      ++way.number;
    }
  }
  JoinPlan plan_through_relay(const std::string& token) {
    JoinPlan through = plan(token);
    through.port = relay_->local_endpoint().port();
    through.limit = 500ms;
    return through;
  }
  void TearDown() override {
    if (relay_) relay_->close();
    for (const auto& socket : sockets_) {
      boost::system::error_code ignored;
      socket->close(ignored);
    }
    if (joined_.link) joined_.link->close();
    HandshakeServerTest::TearDown();
  }
  /// Joins through it and exchanges three frames each way; what came, and why the link ended.
  void talk(const std::string& token) {
    join_by(plan_through_relay(token));
    ASSERT_TRUE(turn_until([this] { return is_joined_; }));
    if (!joined_.link) return;
    const auto note = [](Frames& seen, std::string& why, ControlLink& link) {
      link.start(
          [&seen](std::string_view frame) {
            seen.emplace_back(frame);
            return true;
          },
          [&why](const std::string& how) { why = how; });
    };
    note(at_node_, why_node_, *joined_.link);
    note(at_zero_, why_zero_, *links_.back());
    for (const char* const text : {"one", "two", "three"}) {
      joined_.link->send(text);
      links_.back()->send(text);
    }
    turn_until([this] {
      return (at_node_.size() >= 3 || !why_node_.empty()) &&
             (at_zero_.size() >= 3 || !why_zero_.empty());
    });
  }

  Alter alter_;
  std::function<void(std::string&)> alter_opening_;
  std::optional<tcp::acceptor> relay_;
  std::vector<std::shared_ptr<tcp::socket>> sockets_;
  Frames at_node_;
  Frames at_zero_;
  std::string why_node_;
  std::string why_zero_;
};

// From the node come its number, its proof, its Hello, and what the link carries; from node 0 its
// number, its proof, its Welcome, and so on.
constexpr int kHelloNumber = 2;
constexpr int kFirstNumber = 3;

TEST_F(RelayTest, UnalteredFramesArrive) {
  relay(kToken, [](const std::string& frame, int, bool) { return Frames{frame}; });
  talk(kToken);
  EXPECT_THAT(at_node_, ElementsAre("one", "two", "three"));
  EXPECT_THAT(at_zero_, ElementsAre("one", "two", "three"));
  EXPECT_THAT(hellos_, ElementsAre(a_hello()));
}

/// The host's name in a Hello, or the name in a Welcome, by another of the same length.
std::string with_another_host(std::string frame) {
  const std::string host = "\"host\":\"";
  const std::size_t at = frame.find(host);
  if (at != std::string::npos) frame[at + host.size()] = 'x';
  return frame;
}

TEST_F(RelayTest, A5_NobodyOnTheWayChangesOrReadsAHello) {
  bool has_read = false;
  relay(kToken, [&](const std::string& frame, int, bool) {
    has_read = has_read || frame.find("\"host\"") != std::string::npos;
    return Frames{with_another_host(frame)};
  });
  talk(kToken);
  EXPECT_FALSE(has_read);
  EXPECT_THAT(hellos_, testing::Each(a_hello()));
}

TEST_F(RelayTest, A5_AChangedBitOfAHelloIsRefusedAndSaid) {
  relay(kToken, [](std::string frame, int number, bool from_node) {
    if (from_node && number == kHelloNumber) frame.back() = static_cast<char>(frame.back() ^ 1);
    return Frames{frame};
  });
  join_by(plan_through_relay(kToken));
  ASSERT_TRUE(turn_until([this] { return is_joined_; }));
  EXPECT_THAT(hellos_, IsEmpty());
  ASSERT_FALSE(lines_.empty());
  EXPECT_THAT(lines_[0], HasSubstr(kAlteredFrame));
}

TEST_F(RelayTest, A5_AFrameThatWasChangedRepeatedSwappedOrDroppedEndsTheLink) {
  std::string kept;
  const std::vector<Alter> relays{
      [](std::string frame, int number, bool) {
        if (number == kFirstNumber + 1) frame[0] = static_cast<char>(frame[0] ^ 1);
        return Frames{frame};
      },
      [](const std::string& frame, int number, bool) {
        return number == kFirstNumber ? Frames{frame, frame} : Frames{frame};
      },
      [&kept](const std::string& frame, int number, bool) {
        if (number == kFirstNumber + 1) {
          kept = frame;
          return Frames{};
        }
        return number == kFirstNumber + 2 ? Frames{frame, kept} : Frames{frame};
      },
      [](const std::string& frame, int number, bool) {
        return number == kFirstNumber + 1 ? Frames{} : Frames{frame};
      },
      [](const std::string& frame, int number, bool) {
        return Frames{number == kFirstNumber + 1 ? frame.substr(1) : frame};
      }};
  for (const Alter& alter : relays) {
    at_node_.clear();
    at_zero_.clear();
    why_node_.clear();
    why_zero_.clear();
    is_joined_ = false;
    relay(kToken, alter);
    talk(kToken);
    EXPECT_EQ(error_, "");
    EXPECT_THAT(at_node_, ElementsAre("one"));
    EXPECT_THAT(at_zero_, ElementsAre("one"));
    EXPECT_EQ(why_node_, kAlteredFrame);
    EXPECT_EQ(why_zero_, kAlteredFrame);
    relay_->close();
    acceptor_->close();
  }
}

/// What the node has said comes back to it, and what node 0 has said to it.
TEST_F(RelayTest, A5_AReflectedFrameEndsTheLink) {
  relay(kToken, [this](const std::string& frame, int number, bool from_node) {
    if (from_node && number == kFirstNumber) {
      boost::system::error_code ignored;
      asio::write(*sockets_[0], asio::buffer(frame_head(frame.size()) + frame), ignored);
      return Frames{};
    }
    return Frames{frame};
  });
  talk(kToken);
  EXPECT_EQ(why_node_, kAlteredFrame);
}

TEST_F(RelayTest, A5_WithoutItsTokenFlagAnOpeningIsRefused) {
  relay(
      kToken,
      [](const std::string& frame, int, bool) { return Frames{frame}; },
      [](std::string& opening) { opening.back() = '\0'; });
  join_by(plan_through_relay(kToken));
  expect_refused("node 0 asks for a token, this node has none");
}

TEST_F(RelayTest, A5_AnOpeningWithAnotherFlagIsNotTheOneThatWasProved) {
  relay(
      kToken,
      [](const std::string& frame, int, bool) { return Frames{frame}; },
      [](std::string& opening) { opening.back() = static_cast<char>(opening.back() | 2); });
  join_by(plan_through_relay(kToken));
  expect_refused("token is not that of node 0");
}

// Without a token nothing of that holds, which a warning says.
TEST_F(RelayTest, WithoutATokenFramesArePlain) {
  relay("", [](const std::string& frame, int, bool) { return Frames{with_another_host(frame)}; });
  talk("");
  ASSERT_EQ(hellos_.size(), 1U);
  EXPECT_EQ(hellos_[0].host, "x");
}

}  // namespace
}  // namespace ddp::launcher
