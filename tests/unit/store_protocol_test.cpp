#include "launcher/plan/store/store_protocol.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using Texts = std::vector<std::string>;

std::string number_bytes(std::uint64_t value) {
  std::string bytes;
  put_u64(bytes, value);
  return bytes;
}
std::string text_bytes(std::string_view value) {
  std::string bytes;
  put_text(bytes, value);
  return bytes;
}
std::string command(StoreCommand value) {
  return std::string(1, static_cast<char>(value));
}

/// One request of every command, as a client sends it, and what it is.
struct WireSample {
  std::string bytes;
  StoreRequest request;
};
WireSample sample(StoreCommand which,
                  const std::string& body,
                  Texts texts = {},
                  std::int64_t n = 0) {
  return {command(which) + body, {which, std::move(texts), n}};
}
std::vector<WireSample> samples() {
  using enum StoreCommand;
  const std::string nonce("\x39\x30\0\0", 4);
  return {
      sample(set, text_bytes("/a") + text_bytes("x"), {"/a", "x"}),
      sample(compare_set, text_bytes("/a") + text_bytes("") + text_bytes("y"), {"/a", "", "y"}),
      sample(get, text_bytes("/a"), {"/a"}),
      sample(add, text_bytes("/n") + number_bytes(static_cast<std::uint64_t>(-3)), {"/n"}, -3),
      sample(check, number_bytes(2) + text_bytes("/a") + text_bytes("/b"), {"/a", "/b"}),
      sample(wait, number_bytes(0)),
      sample(wait, number_bytes(1) + text_bytes("/w"), {"/w"}),
      sample(count_keys, ""),
      sample(delete_key, text_bytes("/a"), {"/a"}),
      sample(append, text_bytes("/a") + text_bytes("more"), {"/a", "more"}),
      sample(multi_get, number_bytes(1) + text_bytes("/a"), {"/a"}),
      sample(multi_set,
             number_bytes(2) + text_bytes("a") + text_bytes("1") + text_bytes("b") + text_bytes(""),
             {"a", "1", "b", ""}),
      sample(cancel_wait, ""),
      sample(ping, nonce, {}, 12345),
      sample(queue_push, text_bytes("q") + text_bytes("e"), {"q", "e"}),
      sample(queue_pop, text_bytes("q"), {"q"}),
      sample(queue_length, text_bytes("q"), {"q"}),
      sample(list_keys, ""),
      sample(barrier, text_bytes("/b") + number_bytes(4), {"/b"}, 4),
  };
}

std::vector<StoreRequest> drain(StoreDecoder& decoder) {
  std::vector<StoreRequest> requests;
  while (auto request = decoder.next())
    requests.push_back(std::move(*request));
  return requests;
}

bool breaks(const std::string& bytes) {
  StoreDecoder decoder;
  decoder.feed(bytes);
  EXPECT_FALSE(decoder.next());
  return decoder.is_broken();
}

TEST(StoreProtocol, EveryCommandIsReadInWhateverPiecesItComes) {
  std::string all;
  std::vector<StoreRequest> expected;
  for (const WireSample& one : samples()) {
    all += one.bytes;
    expected.push_back(one.request);
  }
  for (std::size_t split = 0; split <= all.size(); ++split) {
    StoreDecoder decoder;
    decoder.feed(std::string_view(all).substr(0, split));
    std::vector<StoreRequest> seen = drain(decoder);
    decoder.feed(std::string_view(all).substr(split));
    for (StoreRequest& request : drain(decoder))
      seen.push_back(std::move(request));
    EXPECT_EQ(seen, expected) << "split at byte " << split;
    EXPECT_FALSE(decoder.is_broken());
  }
  StoreDecoder bytewise;
  std::vector<StoreRequest> seen;
  for (const char byte : all) {
    bytewise.feed(std::string_view(&byte, 1));
    for (StoreRequest& request : drain(bytewise))
      seen.push_back(std::move(request));
  }
  EXPECT_EQ(seen, expected);
}

TEST(StoreProtocol, KeysAreBytes) {
  const std::string key("\0/\xff", 3);
  StoreDecoder decoder;
  decoder.feed(command(StoreCommand::get) + text_bytes(key));
  EXPECT_EQ(decoder.next()->texts, Texts{key});
}

TEST(StoreProtocol, LimitsAreThoseOfTorch) {
  using enum StoreCommand;
  EXPECT_FALSE(breaks(command(get) + number_bytes(kMaxKeyBytes)));
  EXPECT_TRUE(breaks(command(get) + number_bytes(kMaxKeyBytes + 1)));
  EXPECT_FALSE(breaks(command(set) + text_bytes("k") + number_bytes(kMaxValueBytes)));
  EXPECT_TRUE(breaks(command(set) + text_bytes("k") + number_bytes(kMaxValueBytes + 1)));
  EXPECT_FALSE(breaks(command(wait) + number_bytes(kMaxKeys)));
  EXPECT_TRUE(breaks(command(wait) + number_bytes(kMaxKeys + 1)));
  EXPECT_TRUE(breaks(command(set) + text_bytes("k") + number_bytes(1ULL << 62)));
  EXPECT_TRUE(breaks(command(multi_set) + number_bytes(~0ULL)));
  EXPECT_TRUE(breaks(command(compare_set) + text_bytes("k") + text_bytes("") +
                     number_bytes(kMaxValueBytes + 1)));
}

TEST(StoreProtocol, UnknownCommandsAndASecondValidateBreakIt) {
  for (int byte = static_cast<int>(kStoreCommands); byte < 256; ++byte)
    EXPECT_TRUE(breaks(std::string(1, static_cast<char>(byte)))) << byte;
  EXPECT_TRUE(breaks(std::string("\0\xce\xf7\x85\x3c", 5)));
}

TEST(StoreProtocol, NoRequestFollowsABrokenOne) {
  StoreDecoder decoder;
  decoder.feed(command(StoreCommand::list_keys) + "\xff" + command(StoreCommand::list_keys));
  EXPECT_TRUE(decoder.next());
  EXPECT_FALSE(decoder.next());
  decoder.feed(command(StoreCommand::list_keys));
  EXPECT_FALSE(decoder.next());
  EXPECT_TRUE(decoder.is_broken());
}

TEST(StoreProtocol, AnAnnouncedLengthTakesNoMemory) {
  StoreDecoder decoder;
  decoder.feed(command(StoreCommand::set) + text_bytes("k") + number_bytes(kMaxValueBytes) +
               "begin");
  EXPECT_FALSE(decoder.next());
  EXPECT_LT(decoder.held(), 1024U);
  StoreDecoder many;
  many.feed(command(StoreCommand::multi_set) + number_bytes(kMaxKeys));
  EXPECT_FALSE(many.next());
  EXPECT_LT(many.held(), 1024U);
}

TEST(StoreProtocol, OneRequestIsBounded) {
  const std::string entry = text_bytes("k") + text_bytes(std::string(kMaxValueBytes, 'v'));
  StoreDecoder decoder;
  decoder.feed(command(StoreCommand::multi_set) + number_bytes(kMaxKeys));
  std::size_t most = 0;
  for (int i = 0; i < 64 && !decoder.is_broken(); ++i) {
    decoder.feed(entry);
    EXPECT_FALSE(decoder.next());
    most = std::max(most, decoder.held());
  }
  EXPECT_TRUE(decoder.is_broken());
  EXPECT_LT(most, kMaxRequestBytes + 4 * kMaxValueBytes);
}

TEST(StoreProtocol, TheOpeningTellsWhoComes) {
  const std::string magic("\0\xce\xf7\x85\x3c", 5);
  for (std::size_t size = 0; size < magic.size(); ++size)
    EXPECT_EQ(read_opening(magic.substr(0, size)), StoreOpening::unknown);
  EXPECT_EQ(read_opening(magic), StoreOpening::store);
  // torch 1.x: SET is 0 and ADD is 3, and neither is preceded by a magic number.
  EXPECT_EQ(read_opening(std::string("\0\6\0\0\0", 5)), StoreOpening::old_store);
  EXPECT_EQ(read_opening("\3"), StoreOpening::old_store);
  EXPECT_EQ(read_opening("GET / HTTP"), StoreOpening::not_a_store);
  EXPECT_EQ(read_opening("\x16\x03\x01"), StoreOpening::not_a_store);  // TLS
  EXPECT_EQ(read_opening("\xff"), StoreOpening::not_a_store);
}

}  // namespace
}  // namespace ddp::launcher
