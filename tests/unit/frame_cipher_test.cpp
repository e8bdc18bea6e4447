#include "launcher/net/frame_cipher.h"

#include <gtest/gtest.h>

#include <vector>

#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {
namespace {

const std::string kToken(64, 't');

/// What a handshake has said, and both ends of what follows it.
struct Connection {
  explicit Connection(const std::string& token = kToken, const std::string& opening = "opening!") {
    said.opening = opening;
    said.node = make_nonce();
    said.coordinator = make_nonce();
    node.emplace(token, Prover::node, said);
    coordinator.emplace(token, Prover::coordinator, said);
  }
  Transcript said;
  std::optional<FrameCipher> node;
  std::optional<FrameCipher> coordinator;
};

TEST(FrameCipher, ASealedFrameOpensOnTheOtherSideBothWays) {
  Connection line;
  for (const std::string& frame : {std::string("a secret"), std::string(kLongestFrame, 'y')}) {
    const std::string down = line.coordinator->seal(frame);
    EXPECT_LE(down.size(), kLongestSealed);
    EXPECT_EQ(down.find(frame.substr(0, 100)), std::string::npos);
    EXPECT_EQ(line.node->open(down), frame);
    EXPECT_EQ(line.coordinator->open(line.node->seal(frame)), frame);
  }
}

TEST(FrameCipher, A5_AnAlteredFrameIsNotOpenedNorIsAnyOther) {
  const std::string frame = "an order";
  for (std::size_t at = 0; at < kSealHeadBytes + frame.size() + kSealBytes; ++at) {
    Connection line;
    std::string sealed = line.coordinator->seal(frame);
    sealed[at] = static_cast<char>(sealed[at] ^ 1);
    EXPECT_EQ(line.node->open(sealed), std::nullopt) << at;
    EXPECT_TRUE(line.node->is_broken());
    EXPECT_EQ(line.node->open(line.coordinator->seal(frame)), std::nullopt);
  }
}

TEST(FrameCipher, A5_AReplayedFrameIsNotOpened) {
  Connection line;
  const std::string first = line.node->seal("first");
  const std::string second = line.node->seal("second");
  EXPECT_EQ(line.coordinator->open(first), "first");
  EXPECT_EQ(line.coordinator->open(second), "second");
  EXPECT_EQ(line.coordinator->open(second), std::nullopt);
}

TEST(FrameCipher, A5_FramesInAnotherOrderOrWithOneMissingAreNotOpened) {
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 2, 1}, std::vector<std::size_t>{0, 2}, {1, 0}}) {
    Connection line;
    std::vector<std::string> frames;
    for (const char* const text : {"0", "1", "2"})
      frames.push_back(line.node->seal(text));
    std::size_t opened = 0;
    for (const std::size_t which : order)
      opened += line.coordinator->open(frames[which]) ? 1 : 0;
    EXPECT_EQ(opened, order[0] == 0 ? 1U : 0U);
  }
}

TEST(FrameCipher, A5_AFrameThatIsCutOffIsNotOpened) {
  const std::size_t whole = Connection().node->seal("a frame").size();
  for (std::size_t size = 0; size < whole; ++size) {
    Connection line;
    EXPECT_EQ(line.coordinator->open(line.node->seal("a frame").substr(0, size)), std::nullopt)
        << size;
  }
}

TEST(FrameCipher, A5_AFrameSentBackToItsSenderIsNotOpened) {
  Connection line;
  const std::string sealed = line.node->seal("mine");
  EXPECT_EQ(line.node->open(sealed), std::nullopt);
}

TEST(FrameCipher, A5_FramesOfAnotherConnectionOrTokenOrOpeningAreNotOpened) {
  Connection line;
  Connection other;  // of the same token
  EXPECT_EQ(line.coordinator->open(other.node->seal("a frame")), std::nullopt);

  Connection again;
  FrameCipher of_other_token(std::string(64, 'x'), Prover::node, again.said);
  EXPECT_EQ(again.coordinator->open(of_other_token.seal("a frame")), std::nullopt);

  Connection once_more;
  Transcript altered = once_more.said;
  altered.opening = "openinG!";
  FrameCipher of_other_opening(kToken, Prover::node, altered);
  EXPECT_EQ(once_more.coordinator->open(of_other_opening.seal("a frame")), std::nullopt);
}

TEST(FrameCipher, KeysAndProofsAreAllDifferent) {
  const Connection line;
  const std::vector<std::string> all{prove(kToken, Prover::node, line.said),
                                     prove(kToken, Prover::coordinator, line.said),
                                     derive_key(kToken, Prover::node, line.said),
                                     derive_key(kToken, Prover::coordinator, line.said)};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(all[i], all[j]);
  }
}

}  // namespace
}  // namespace ddp::launcher
