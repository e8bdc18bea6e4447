// The first words between two agents over real sockets: the right ones, and all that are not.
#include "tests/integration/handshake_server_test.h"

#include <sys/resource.h>

#include <functional>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(HandshakeServerTest, ANodeJoinsWithAndWithoutAToken) {
  for (const std::string& token : {std::string(), kToken}) {
    is_joined_ = false;
    hellos_.clear();
    open(token);
    join_by(plan(token));
    ASSERT_TRUE(turn_until([this] { return is_joined_; }));
    EXPECT_EQ(error_, "");
    EXPECT_THAT(hellos_, ElementsAre(a_hello()));
    EXPECT_EQ(joined_.welcome.run_id, "r1");
    EXPECT_EQ(joined_.link->peer_address(), "127.0.0.1");
    EXPECT_EQ(handshakes_->peers(), 0U);
    EXPECT_EQ(handshakes_->unknown_peers(), 0U);
    // The link is there for both.
    std::string seen;
    const auto note = [&seen](std::string_view frame) {
      seen = frame;
      return true;
    };
    joined_.link->start(note, [](const std::string&) {});
    links_.back()->send("an order");
    EXPECT_TRUE(turn_until([&] { return seen == "an order"; }));
    joined_.link->close();
    links_.back()->close();
    acceptor_->close();
    turn_for(10ms);
  }
}

// Case C1: a wrong token.
TEST_F(HandshakeServerTest, C1_AWrongTokenIsRefusedAndSaidAtALimitedRate) {
  open(kToken);
  for (int i = 0; i < 5; ++i) {
    is_joined_ = false;
    join_by(plan(std::string(64, 'x')));
    expect_refused("token is not that of node 0");
  }
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], HasSubstr("127.0.0.1 was refused"));
}

// Case C1: no token against a token, and the other way round.
TEST_F(HandshakeServerTest, C1_NoTokenAgainstATokenIsRefused) {
  open(kToken);
  join_by(plan(""));
  expect_refused("node 0 asks for a token, this node has none");
}
TEST_F(HandshakeServerTest, C1_ATokenAgainstNoneIsRefused) {
  open("");
  join_by(plan(kToken));
  expect_refused("this node has a token, node 0 has none");
}

// Case C2: a replayed handshake.
TEST_F(HandshakeServerTest, C2_AReplayedHandshakeIsRefused) {
  open(kToken);
  Transcript said;
  said.opening = to_bytes({kProtocolVersion, true});
  said.node = make_nonce();
  RawClient first = peer();
  first.send(said.opening);
  first.send_frame(said.node);
  ASSERT_TRUE(turn_until([&] { return first.frame().size() == kNonceBytes; }));
  said.coordinator = first.frame();
  const std::string proof = prove(kToken, Prover::node, said);
  first.send_frame(proof);
  first.forget_frame();
  ASSERT_TRUE(turn_until([&] { return first.frame().size() == kProofBytes; }));
  EXPECT_TRUE(is_proof(first.frame(), kToken, Prover::coordinator, said));
  const std::string hello = FrameCipher(kToken, Prover::node, said).seal(encode(a_hello()));
  first.send_frame(hello);
  EXPECT_TRUE(turn_until([&] { return hellos_.size() == 1; }));

  RawClient second = peer();  // says the same, word for word
  second.send(said.opening);
  second.send_frame(said.node);
  ASSERT_TRUE(turn_until([&] { return second.frame().size() == kNonceBytes; }));
  EXPECT_NE(second.frame(), said.coordinator);
  second.forget_frame();
  second.send_frame(proof);
  second.send_frame(hello);
  EXPECT_TRUE(turn_until([&] { return !second.refusal().empty(); }));
  EXPECT_EQ(hellos_.size(), 1U);
}

TEST_F(HandshakeServerTest, C2_MirroredProofOfNode0IsRefused) {
  open(kToken);
  Transcript said;
  said.opening = to_bytes({kProtocolVersion, true});
  said.node = make_nonce();
  RawClient mirror = peer();
  mirror.send(said.opening);
  mirror.send_frame(said.node);
  ASSERT_TRUE(turn_until([&] { return mirror.frame().size() == kNonceBytes; }));
  said.coordinator = mirror.frame();
  mirror.forget_frame();
  mirror.send_frame(prove(kToken, Prover::coordinator, said));
  EXPECT_TRUE(turn_until([&] { return !mirror.refusal().empty(); }));
}

// Case C3: another version of the protocol.
TEST_F(HandshakeServerTest, C3_AnotherVersionIsRefusedWithBoth) {
  for (const std::string& token : {std::string(), kToken}) {
    open(token);
    RawClient other = peer();
    other.send(to_bytes({99, false}));
    other.send("\x01whatever version 99 says");
    ASSERT_TRUE(turn_until([&] { return !other.refusal().empty(); }));
    EXPECT_THAT(other.refusal(), HasSubstr("version " + std::to_string(kProtocolVersion)));
    EXPECT_THAT(other.refusal(), HasSubstr("version 99"));
    acceptor_->close();
    handshakes_->close();
    turn_for(10ms);
  }
  open("");
  JoinPlan from_the_future = plan("");
  from_the_future.hello.protocol = 99;
  join_by(std::move(from_the_future));
  expect_refused("version 99");
}

// Case C9: garbage, HTTP, TLS.
TEST_F(HandshakeServerTest, C9_UnknownPeersAreClosedAndCounted) {
  open(kToken);
  const std::vector<std::string> all{"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                                     std::string("\x16\x03\x01\x02\0\x01", 6),
                                     "SSH-2.0-x\r\n",
                                     std::string(100000, '\xdd')};
  for (const std::string& bytes : all) {
    RawClient unknown = peer();
    unknown.send(bytes);
    EXPECT_TRUE(turn_until([&] { return unknown.is_closed(); })) << bytes.substr(0, 20);
  }
  EXPECT_EQ(handshakes_->unknown_peers(), all.size());
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_THAT(hellos_, IsEmpty());
}

// Case C10: half a frame, then silence.
TEST_F(HandshakeServerTest, C10_SilenceIsClosedAfterFiveSeconds) {
  open("");
  RawClient nothing = peer();
  RawClient half_opening = peer();
  half_opening.send(to_bytes({kProtocolVersion, false}).substr(0, 5));
  RawClient half_frame = peer();
  half_frame.send(to_bytes({kProtocolVersion, false}) + frame_head(1000) + "{");
  const Deadline begin = Clock::now();
  join_by(plan(""));  // is not held up
  ASSERT_TRUE(turn_until([this] { return is_joined_; }));
  EXPECT_LT(Clock::now() - begin, 2s);
  EXPECT_EQ(handshakes_->peers(), 3U);
  EXPECT_TRUE(turn_until(
      [&] { return nothing.is_closed() && half_opening.is_closed() && half_frame.is_closed(); }));
  EXPECT_GT(Clock::now() - begin, HandshakeServer::kProveWithin - 1s);
  EXPECT_LT(Clock::now() - begin, HandshakeServer::kProveWithin + 2s);
  EXPECT_TRUE(turn_until([&] { return handshakes_->peers() == 0; }));
  joined_.link->close();
}

// Case C10: 1,000 idle sockets.
TEST_F(HandshakeServerTest, C10_AThousandIdleSocketsKeepNobodyOut) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  open("");
  std::vector<RawClient> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(peer());
    io_.restart();
    io_.poll();
    ASSERT_LE(handshakes_->peers(), HandshakeServer::most_unproven(2));
  }
  EXPECT_EQ(HandshakeServer::most_unproven(2), 64U);
  EXPECT_TRUE(turn_until([&] { return handshakes_->peers() == 32 && idle.front().is_closed(); }));
  join_by(plan(""));
  ASSERT_TRUE(turn_until([this] { return is_joined_; }));
  EXPECT_EQ(error_, "");
  joined_.link->close();
}

// What makes progress stays, however many others come from elsewhere meanwhile.
TEST_F(HandshakeServerTest, A4_AFloodOfOtherSourcesDoesNotEndAHandshake) {
  open(kToken);
  Transcript said;
  said.opening = to_bytes({kProtocolVersion, true});
  said.node = make_nonce();
  source_ = "a node";
  RawClient slow = peer();
  slow.send(said.opening);
  ASSERT_TRUE(turn_until([this] { return handshakes_->peers() == 1; }));
  std::vector<RawClient> flood;
  const auto flood_by = [&](int number) {
    for (int i = 0; i < number; ++i) {
      source_ = "flood " + std::to_string(i % 3);
      flood.push_back(peer());
      flood.back().send(said.opening);
      io_.restart();
      io_.poll();
      // Anyone who has proved that it knows the token takes nobody's place.
      ASSERT_LE(handshakes_->peers(), HandshakeServer::most_unproven(2) + 1);
    }
  };
  flood_by(200);
  slow.send_frame(said.node);
  ASSERT_TRUE(turn_until([&] { return slow.frame().size() == kNonceBytes; }));
  said.coordinator = slow.frame();
  slow.forget_frame();
  flood_by(200);
  slow.send_frame(prove(kToken, Prover::node, said));
  ASSERT_TRUE(turn_until([&] { return slow.frame().size() == kProofBytes; }));
  flood_by(200);
  slow.send_frame(FrameCipher(kToken, Prover::node, said).seal(encode(a_hello())));
  EXPECT_TRUE(turn_until([&] { return hellos_.size() == 1; }));
}

// Case C11: a frame of 0, 2^31, 2^32-1 bytes; one that is longer than an unknown peer's may be.
TEST_F(HandshakeServerTest, C11_AForbiddenLengthClosesTheConnection) {
  open("");
  std::size_t closed = 0;
  for (const std::string& head : {std::string(4, '\0'),
                                  std::string("\x80\0\0\0", 4),
                                  std::string("\xff\xff\xff\xff"),
                                  frame_head(HandshakeServer::kLongestOpenHello + 1)}) {
    RawClient unknown = peer();
    unknown.send(to_bytes({kProtocolVersion, false}) + head + "{}");
    EXPECT_TRUE(turn_until([&] { return unknown.is_closed(); }));
    EXPECT_EQ(handshakes_->unknown_peers(), ++closed);
  }
  RawClient deep = peer();
  deep.send(to_bytes({kProtocolVersion, false}));
  deep.send_frame(std::string(5000, '['));
  EXPECT_TRUE(turn_until([&] { return deep.is_closed(); }));
  EXPECT_EQ(handshakes_->unknown_peers(), ++closed);
  EXPECT_THAT(hellos_, IsEmpty());
}

TEST_F(HandshakeServerTest, AnUnprovenFrameIsShort) {
  open(kToken);
  RawClient unknown = peer();
  unknown.send(to_bytes({kProtocolVersion, true}) + frame_head(257));
  EXPECT_TRUE(turn_until([&] { return unknown.frame().size() == kNonceBytes; }));
  unknown.forget_frame();
  unknown.send_frame("x");
  EXPECT_TRUE(turn_until([&] { return !unknown.refusal().empty(); }));
}

// --- From the side of the node that joins.

class JoinTest : public HandshakeServerTest {};

// Case N9: node 0 comes later.
TEST_F(JoinTest, N9_ANodeThatIsEarlyJoinsWithinTwoSecondsOfNode0) {
  open("");
  JoinPlan early = plan("");
  acceptor_->close();
  handshakes_->close();
  join_by(early);
  turn_for(3500ms);  // so the pauses have grown
  EXPECT_FALSE(is_joined_);
  const Deadline begin = Clock::now();
  acceptor_.emplace(io_, tcp::endpoint(kLoopback, static_cast<std::uint16_t>(early.port)));
  take_next();
  ASSERT_TRUE(turn_until([this] { return is_joined_; }));
  EXPECT_EQ(error_, "");
  EXPECT_LT(Clock::now() - begin, 2s);
  joined_.link->close();
}

TEST_F(JoinTest, TheLimitIsARendezvousThatFailed) {
  open("");
  JoinPlan hopeless = plan("");
  hopeless.limit = 300ms;
  acceptor_->close();
  join_by(hopeless);
  ASSERT_TRUE(turn_until([this] { return is_joined_; }));
  EXPECT_EQ(code_, exit_code::kRendezvous);
  EXPECT_THAT(error_, HasSubstr("127.0.0.1:" + std::to_string(hopeless.port)));
  EXPECT_THAT(error_, HasSubstr("Connection refused"));
}

TEST_F(JoinTest, ServerThatIsNotAnAgentIsReportedAfterRetries) {
  open("");
  JoinPlan patient = plan("");
  patient.limit = 300ms;
  acceptor_->close();
  acceptor_.emplace(io_, tcp::endpoint(kLoopback, static_cast<std::uint16_t>(patient.port)));
  int visits = 0;
  std::function<void()> slam = [&] {
    acceptor_->async_accept([&](const boost::system::error_code& error, tcp::socket socket) {
      if (error) return;
      ++visits;
      boost::system::error_code ignored;
      socket.send(asio::buffer("HTTP/1.1 400 Bad Request\r\n\r\n", 28), 0, ignored);
      slam();
    });
  };
  slam();
  join_by(patient);
  ASSERT_TRUE(turn_until([this] { return is_joined_; }));
  EXPECT_GT(visits, 1);
  EXPECT_EQ(code_, exit_code::kRendezvous);
  EXPECT_THAT(error_, HasSubstr("is not an agent of ddp-launch"));
}

/// Somebody else listens at node 0's port, and says `words` to anyone who comes.
class Impostor : public JoinTest {
 protected:
  /// What the first node said to it.
  std::string fool(const std::string& words) {
    open("");  // for its port
    JoinPlan patient = plan(kToken);
    patient.limit = 300ms;
    acceptor_->close();
    acceptor_.emplace(io_, tcp::endpoint(kLoopback, static_cast<std::uint16_t>(patient.port)));
    std::vector<std::shared_ptr<tcp::socket>> kept;
    std::function<void()> lie = [&] {
      acceptor_->async_accept([&](const boost::system::error_code& error, tcp::socket socket) {
        if (error) return;
        kept.push_back(std::make_shared<tcp::socket>(std::move(socket)));
        boost::system::error_code ignored;
        kept.back()->send(asio::buffer(words), 0, ignored);
        lie();
      });
    };
    lie();
    join_by(patient);
    EXPECT_TRUE(turn_until([this] { return is_joined_; }));
    EXPECT_EQ(code_, exit_code::kRendezvous);
    EXPECT_THAT(error_, HasSubstr("does not know this job's token"));
    if (kept.empty()) return "";
    std::string said(4096, '\0');
    boost::system::error_code ignored;
    said.resize(kept[0]->receive(asio::buffer(said), 0, ignored));
    return said;
  }
};

TEST_F(Impostor, C1_ServerWithoutTheTokenGetsNoHello) {
  const std::string nonce = frame_head(32) + std::string(32, 'n');
  const std::string proof = frame_head(32) + std::string(32, 'p');
  // The opening, a nonce and a proof; and no Hello.
  EXPECT_EQ(fool(nonce + proof).size(), kAgentOpeningBytes + 2 * (kFrameHeadBytes + 32));
}

TEST_F(Impostor, C1_AWelcomeWithoutAProofIsNoWelcome) {
  const std::string welcome = encode(Welcome{"0123456789abcdef", "none", "evil"});
  const std::string frame = frame_head(static_cast<std::uint32_t>(welcome.size())) + welcome;
  EXPECT_EQ(fool(frame).size(), kAgentOpeningBytes + kFrameHeadBytes + 32);
}

TEST_F(Impostor, C1_AWelcomeInThePlaceOfAProofIsNoWelcome) {
  const std::string welcome = encode(Welcome{"0123456789abcdef", "none", "evil"});
  const std::string nonce = frame_head(32) + std::string(32, 'n');
  const std::string frame = frame_head(static_cast<std::uint32_t>(welcome.size())) + welcome;
  EXPECT_EQ(fool(nonce + frame).size(), kAgentOpeningBytes + 2 * (kFrameHeadBytes + 32));
}

TEST_F(JoinTest, IPv6IsReachedToo) {
  boost::system::error_code error;
  tcp::acceptor probe(io_);
  probe.open(tcp::v6(), error);
  if (!error) probe.bind(tcp::endpoint(asio::ip::address_v6::loopback(), 0), error);
  if (error) GTEST_SKIP() << "no IPv6 here: " << error.message();
  probe.close();
  open("", 2, asio::ip::address_v6::loopback());
  join_by(plan(""));
  ASSERT_TRUE(turn_until([this] { return is_joined_; }));
  EXPECT_EQ(error_, "");
  EXPECT_EQ(joined_.link->peer_address(), "::1");
  joined_.link->close();
}

asio::awaitable<void> ask(asio::io_context& io,
                          JoinPlan plan,
                          bool& is_done,
                          std::optional<Answer>& answer) {
  answer = co_await ask_once(io, std::move(plan), 500ms);
  is_done = true;
}

TEST_F(JoinTest, AskingOnceGivesTheAnswerOrNothing) {
  open("");
  bool is_done = false;
  std::optional<Answer> answer;
  asio::co_spawn(io_, ask(io_, plan(""), is_done, answer), rethrow);
  ASSERT_TRUE(turn_until([&] { return is_done; }));
  EXPECT_EQ(answer, Answer(Welcome{"r1", "none", "a"}));
  is_done = false;
  JoinPlan nobody = plan("");
  acceptor_->close();
  const Deadline begin = Clock::now();
  asio::co_spawn(io_, ask(io_, nobody, is_done, answer), rethrow);
  ASSERT_TRUE(turn_until([&] { return is_done; }));
  EXPECT_EQ(answer, std::nullopt);
  EXPECT_LT(Clock::now() - begin, 2s);
}

}  // namespace
}  // namespace ddp::launcher
