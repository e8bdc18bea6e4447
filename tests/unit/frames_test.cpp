#include "launcher/plan/wire/frames.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

std::string frame(std::string_view payload) {
  return frame_head(payload.size()) + std::string(payload);
}

TEST(Frames, AnOpeningSurvivesTheWayAndIsNoClientOfTheStore) {
  for (const AgentOpening opening : {AgentOpening{1, false}, AgentOpening{65535, true}}) {
    const std::string bytes = to_bytes(opening);
    ASSERT_EQ(bytes.size(), kAgentOpeningBytes);
    EXPECT_GT(static_cast<unsigned char>(bytes[0]), 0x80);  // above all commands of the store
    EXPECT_EQ(read_agent_opening(bytes), opening);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_TRUE(may_become_opening(bytes.substr(0, size)));
      EXPECT_FALSE(read_agent_opening(bytes.substr(0, size)));
    }
  }
}

TEST(Frames, OtherProgramsDoNotOpenLikeAgents) {
  for (const std::string_view text : {"GET / HTTP/1.1\r\n", "\x16\x03\x01\x02", "SSH-2.0-x\r\n"}) {
    EXPECT_FALSE(may_become_opening(text));
    EXPECT_FALSE(read_agent_opening(text));
  }
}

TEST(Frames, FramesComeOutWholeInWhateverPiecesTheyCome) {
  const std::string bytes = frame("a") + frame(std::string(1000, 'b')) + frame("c");
  for (const std::size_t piece : {1U, 3U, 7U, 5000U}) {
    FrameDecoder decoder;
    std::string seen;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      decoder.feed(std::string_view(bytes).substr(at, piece));
      while (const auto next = decoder.next())
        seen += std::string(*next) + "|";
    }
    EXPECT_EQ(seen, "a|" + std::string(1000, 'b') + "|c|");
    EXPECT_FALSE(decoder.is_broken());
  }
}

// Case C11: a length of 0, 2^31, 2^32-1.
TEST(Frames, C11_ALengthThatNoFrameHasBreaksTheDecoderAndTakesNoMemory) {
  for (const std::string& head : {std::string(4, '\0'),
                                  std::string("\x80\0\0\0", 4),
                                  std::string("\xff\xff\xff\xff"),
                                  frame_head(kLongestFrame + 1)}) {
    FrameDecoder decoder;
    decoder.feed(frame("good") + head + std::string(10000, 'x'));
    EXPECT_EQ(decoder.next(), "good");
    EXPECT_EQ(decoder.next(), std::nullopt);
    EXPECT_TRUE(decoder.is_broken());
    EXPECT_EQ(decoder.next(), std::nullopt);
    EXPECT_LT(decoder.held(), 5000U);
  }
  FrameDecoder decoder;
  decoder.feed(frame_head(kLongestFrame));  // as long as allowed: nothing is taken in advance
  EXPECT_EQ(decoder.next(), std::nullopt);
  EXPECT_FALSE(decoder.is_broken());
  EXPECT_LT(decoder.held(), 100U);
}

TEST(Frames, AHandshakeHasALimitOfItsOwn) {
  EXPECT_EQ(read_frame_head(frame_head(256), 256), 256U);
  EXPECT_EQ(read_frame_head(frame_head(257), 256), std::nullopt);
  EXPECT_EQ(read_frame_head("\0\0", 256), std::nullopt);
}

}  // namespace
}  // namespace ddp::launcher
