#include "launcher/plan/store/key_space.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using enum StoreCommand;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

std::string text(std::string_view value) {
  std::string bytes;
  put_text(bytes, value);
  return bytes;
}
std::string number(std::uint64_t value) {
  std::string bytes;
  put_u64(bytes, value);
  return bytes;
}
const std::string kYes("\0", 1);  // CHECK: all there; WAIT: over
const std::string kNo("\1", 1);

constexpr StoreClientId kA = 1, kB = 2, kC = 3;

struct Answer {
  std::string reply;
  std::vector<StoreClientId> released;
  std::string refused;
};

/// Whether each request is carried out at once, or by one key or value at a time.
class Keys : public testing::TestWithParam<bool> {
 protected:
  Answer take(StoreClientId client, StoreCommand command, Texts texts, std::int64_t n = 0) {
    KeySpace::Work work(client, StoreRequest{command, std::move(texts), n}, now_);
    Answer answer;
    while (!finish_step(work, answer)) {
    }
    answer.reply = work.reply;
    answer.refused = work.refused;
    return answer;
  }
  bool finish_step(KeySpace::Work& work, Answer& answer) {
    const KeySpace::StepResult step = keys_.step(work, enough());
    answer.released.insert(answer.released.end(), step.released.begin(), step.released.end());
    return step.is_done;
  }
  [[nodiscard]] static KeySpace::ShouldYield enough() {
    return [] { return GetParam(); };
  }
  std::string reply(StoreCommand command, Texts texts, std::int64_t n = 0) {
    const Answer answer = take(kA, command, std::move(texts), n);
    EXPECT_EQ(answer.refused, "");
    return answer.reply;
  }
  std::vector<StoreClientId> released(StoreCommand command, Texts texts, std::int64_t n = 0) {
    return take(kA, command, std::move(texts), n).released;
  }
  /// Once all is given back that nobody needs any more.
  std::size_t bytes() {
    while (!keys_.collect_garbage(enough())) {
    }
    return keys_.bytes();
  }

  KeySpace::Time now_{};
  KeySpace keys_;
};

INSTANTIATE_TEST_SUITE_P(WholeAndInSteps, Keys, testing::Bool());

TEST_P(Keys, SetAndGet) {
  EXPECT_EQ(reply(set, {"a", "x"}), "");
  EXPECT_EQ(reply(get, {"a"}), text("x"));
  EXPECT_EQ(reply(set, {"a", ""}), "");
  EXPECT_EQ(reply(get, {"a"}), text(""));
  EXPECT_EQ(reply(get, {"missing"}), text(""));
  EXPECT_EQ(reply(count_keys, {}), number(1));
}

TEST_P(Keys, SeveralAtOnce) {
  EXPECT_EQ(reply(multi_set, {"a", "1", "b", "2", "a", "3"}), "");
  EXPECT_EQ(reply(multi_get, {"b", "a", "missing"}), text("2") + text("3") + text(""));
  EXPECT_EQ(reply(multi_get, {}), "");
  EXPECT_EQ(reply(multi_set, {}), "");
  const std::string listed = reply(list_keys, {});
  EXPECT_THAT(listed,
              testing::AnyOf(number(2) + text("a") + text("b"), number(2) + text("b") + text("a")));
}

TEST_P(Keys, AddKeepsDecimalText) {
  EXPECT_EQ(reply(add, {"n"}, 5), number(5));
  EXPECT_EQ(reply(add, {"n"}, -8), number(static_cast<std::uint64_t>(-3)));
  EXPECT_EQ(reply(get, {"n"}), text("-3"));
  EXPECT_EQ(reply(add, {"zero"}, 0), number(0));
  EXPECT_EQ(reply(get, {"zero"}), text("0"));
}

TEST_P(Keys, AddReadsLikeStrtoll) {
  for (const auto& [value, sum] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"12x", 13}, {" 7", 8}, {"+7", 8}, {"9223372036854775807", 1ULL << 63}}) {
    reply(set, {"n", value});
    EXPECT_EQ(reply(add, {"n"}, 1), number(sum)) << value;
  }
  for (const std::string value : {"", "abc", "-", "92233720368547758080"}) {
    reply(set, {"n", value});
    EXPECT_THAT(take(kA, add, {"n"}, 1).refused, HasSubstr("not a number")) << value;
    EXPECT_EQ(reply(get, {"n"}), text(value));
  }
}

TEST_P(Keys, CompareSetHasFiveCases) {
  EXPECT_EQ(reply(compare_set, {"a", "old", "new"}), text("old"));  // missing, something expected
  EXPECT_EQ(reply(check, {"a"}), kNo);
  EXPECT_EQ(reply(compare_set, {"a", "", "new"}), text("new"));  // missing, nothing expected
  EXPECT_EQ(reply(compare_set, {"a", "new", "x"}), text("x"));   // equal
  EXPECT_EQ(reply(compare_set, {"a", "new", "y"}), text("x"));   // different
  EXPECT_EQ(reply(compare_set, {"a", "", "y"}), text("x"));
  EXPECT_EQ(reply(get, {"a"}), text("x"));
  reply(set, {"a", ""});
  EXPECT_EQ(reply(compare_set, {"a", "", "z"}), text("z"));  // an empty value equals it
}

TEST_P(Keys, DeleteAndAppend) {
  EXPECT_EQ(reply(append, {"a", "x"}), "");
  EXPECT_EQ(reply(append, {"a", "yz"}), "");
  EXPECT_EQ(reply(get, {"a"}), text("xyz"));
  EXPECT_EQ(reply(delete_key, {"a"}), number(1));
  EXPECT_EQ(reply(delete_key, {"a"}), number(0));
  EXPECT_EQ(reply(check, {"a"}), kNo);
}

TEST_P(Keys, PingIsEchoed) {
  std::string nonce;
  put_u32(nonce, 0xdeadbeef);
  EXPECT_EQ(reply(ping, {}, 0xdeadbeef), nonce);
}

TEST_P(Keys, QueuesAreApartFromValues) {
  EXPECT_EQ(reply(queue_pop, {"q"}), number(0));
  EXPECT_EQ(reply(queue_length, {"q"}), number(0));
  EXPECT_EQ(reply(queue_push, {"q", "1"}), "");
  EXPECT_EQ(reply(queue_push, {"q", "2"}), "");
  EXPECT_EQ(reply(queue_length, {"q"}), number(2));
  EXPECT_EQ(reply(count_keys, {}), number(0));
  EXPECT_EQ(reply(check, {"q"}), kYes);
  EXPECT_EQ(reply(delete_key, {"q"}), number(0));
  EXPECT_EQ(reply(set, {"q", "value"}), "");
  EXPECT_EQ(reply(queue_pop, {"q"}), number(1) + text("1"));
  EXPECT_EQ(reply(queue_pop, {"q"}), number(1) + text("2"));
  EXPECT_EQ(reply(queue_pop, {"q"}), number(0));
  EXPECT_EQ(reply(get, {"q"}), text("value"));
  EXPECT_EQ(reply(delete_key, {"q"}), number(1));
  EXPECT_EQ(reply(check, {"q"}), kNo);
}

TEST_P(Keys, CheckWantsAll) {
  reply(set, {"a", "1"});
  EXPECT_EQ(reply(check, {"a"}), kYes);
  EXPECT_EQ(reply(check, {"a", "b"}), kNo);
  EXPECT_EQ(reply(check, {}), kYes);
}

TEST_P(Keys, AWaitIsOverAtOnceWhenAllIsThere) {
  reply(set, {"a", "1"});
  reply(queue_push, {"q", "1"});
  EXPECT_EQ(reply(wait, {}), kYes);
  EXPECT_EQ(reply(wait, {"a", "q"}), kYes);
  EXPECT_THAT(keys_.waits(), IsEmpty());
}

TEST_P(Keys, EveryCommandThatMakesAKeyEndsWaits) {
  const std::vector<std::pair<StoreCommand, Texts>> makers = {
      {set, {"k", "v"}},
      {multi_set, {"x", "y", "k", "v"}},
      {add, {"k"}},
      {append, {"k", "v"}},
      {compare_set, {"k", "", "v"}},
      {queue_push, {"k", "v"}},
  };
  for (const auto& [command, texts] : makers) {
    keys_ = KeySpace();
    EXPECT_EQ(take(kB, wait, {"k"}).reply, "");
    EXPECT_THAT(released(command, texts), ElementsAre(kB)) << static_cast<int>(command);
    EXPECT_THAT(released(command, texts), IsEmpty());
  }
  keys_ = KeySpace();
  EXPECT_EQ(take(kB, wait, {"k"}).reply, "");
  EXPECT_THAT(released(compare_set, {"k", "other", "v"}), IsEmpty());  // it stores nothing
}

TEST_P(Keys, AKeyThatAppearsEndsTheWaitsOfAll) {
  EXPECT_EQ(take(kC, wait, {"k"}).reply, "");
  EXPECT_EQ(take(kB, wait, {"k"}).reply, "");
  EXPECT_THAT(released(set, {"k", "v"}), ElementsAre(kC, kB));
}

TEST_P(Keys, AWaitCountsAKeyWhenItAppears) {
  EXPECT_EQ(take(kB, wait, {"a", "b"}).reply, "");
  EXPECT_THAT(released(set, {"a", "1"}), IsEmpty());
  reply(delete_key, {"a"});
  EXPECT_THAT(released(set, {"a", "2"}), IsEmpty());  // not twice
  reply(delete_key, {"a"});
  EXPECT_THAT(released(set, {"b", "1"}), ElementsAre(kB));
}

TEST_P(Keys, AKeyNamedTwiceComesOnce) {
  EXPECT_EQ(take(kB, wait, {"a", "a"}).reply, "");
  EXPECT_THAT(released(set, {"a", "1"}), ElementsAre(kB));
  EXPECT_THAT(keys_.waits(), IsEmpty());
}

TEST_P(Keys, APushEndsAtMostOneWaitTheOldest) {
  EXPECT_EQ(take(kC, wait, {"q"}).reply, "");
  EXPECT_EQ(take(kB, wait, {"q"}).reply, "");
  EXPECT_THAT(released(queue_push, {"q", "1"}), ElementsAre(kC));
  EXPECT_THAT(released(queue_push, {"q", "2"}), ElementsAre(kB));
  EXPECT_THAT(released(queue_push, {"q", "3"}), IsEmpty());
}

TEST_P(Keys, APushOnlyCountsForWhoWaitsForMore) {
  EXPECT_EQ(take(kB, wait, {"q", "other"}).reply, "");
  EXPECT_EQ(take(kC, wait, {"q"}).reply, "");
  EXPECT_THAT(released(queue_push, {"q", "1"}), ElementsAre(kC));
  EXPECT_THAT(released(set, {"other", "1"}), ElementsAre(kB));
}

TEST_P(Keys, CancelIsAlwaysAnsweredAndEndsTheWait) {
  EXPECT_EQ(reply(cancel_wait, {}), kNo);
  EXPECT_EQ(take(kB, wait, {"k", "l"}).reply, "");
  EXPECT_EQ(take(kB, cancel_wait, {}).reply, kNo);
  EXPECT_THAT(released(multi_set, {"k", "v", "l", "v"}), IsEmpty());
  EXPECT_EQ(take(kB, wait, {"k"}).reply, kYes);
  EXPECT_EQ(take(kB, cancel_wait, {}).reply, kNo);
}

TEST_P(Keys, AClientThatIsGoneWaitsNoMore) {
  EXPECT_EQ(take(kB, wait, {"k"}).reply, "");
  keys_.forget(kB);
  keys_.forget(kC);
  EXPECT_THAT(released(set, {"k", "v"}), IsEmpty());
}

TEST_P(Keys, ABarrierIsOverWhenSoManyHaveCome) {
  EXPECT_EQ(take(kB, barrier, {"b"}, 3).reply, "");
  EXPECT_EQ(take(kC, barrier, {"b"}, 3).reply, "");
  EXPECT_EQ(reply(get, {"b"}), text("2"));
  EXPECT_EQ(keys_.waits().size(), 2U);
  const Answer last = take(kA, barrier, {"b"}, 3);
  EXPECT_EQ(last.reply, kYes);
  EXPECT_THAT(last.released, ElementsAre(kB, kC));
  EXPECT_THAT(keys_.waits(), IsEmpty());
  EXPECT_EQ(reply(barrier, {"b"}, 3), kYes) << "who comes later passes";
  EXPECT_EQ(reply(get, {"b"}), text("4"));
}

TEST_P(Keys, AClientThatLeavesABarrierHasBeenCounted) {
  EXPECT_EQ(take(kB, barrier, {"b"}, 2).reply, "");
  EXPECT_EQ(take(kB, cancel_wait, {}).reply, kNo);  // its time-out
  const Answer other = take(kC, barrier, {"b"}, 2);
  EXPECT_EQ(other.reply, kYes);
  EXPECT_THAT(other.released, IsEmpty());
}

TEST_P(Keys, ABarrierThatIsNotFullEndsNoWaitAndWhateverSetsItsKeyDoes) {
  EXPECT_EQ(take(kB, wait, {"b"}).reply, "");
  EXPECT_THAT(take(kC, barrier, {"b"}, 2).released, IsEmpty());
  EXPECT_EQ(reply(check, {"b"}), kYes);
  EXPECT_THAT(released(add, {"b"}, 1), ElementsAre(kB, kC));
  EXPECT_EQ(take(kB, barrier, {"full"}, 2).reply, "");
  EXPECT_THAT(released(barrier, {"full"}, 1), ElementsAre(kB)) << "the last one's number counts";
}

TEST_P(Keys, ABarrierNeedsANumber) {
  reply(set, {"word", "abc"});
  EXPECT_THAT(take(kB, barrier, {"word"}, 1).refused, HasSubstr("not a number"));
  EXPECT_EQ(reply(get, {"word"}), text("abc"));
  reply(set, {"n", "12x"});
  EXPECT_EQ(reply(barrier, {"n"}, 13), kYes);
}

TEST_P(Keys, WaitsTellWhatHasNotCome) {
  now_ += std::chrono::seconds(3);
  EXPECT_EQ(take(kB, wait, {"a", "b", "c"}).reply, "");
  reply(set, {"a", "1"});
  const std::vector<KeySpace::Wait> waits = keys_.waits();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].client, kB);
  EXPECT_EQ(waits[0].key, "b");
  EXPECT_EQ(waits[0].missing, 2U);
  EXPECT_EQ(waits[0].since, now_);
}

TEST_P(Keys, DeletedKeysAndGoneClientsTakeNoRoom) {
  reply(multi_set, {"a", "1", "b", std::string(1000, 'x')});
  reply(set, {"b", "short"});
  reply(append, {"b", "er"});
  reply(add, {"n"}, 99999);
  reply(queue_push, {"q", "1"});
  EXPECT_EQ(take(kB, barrier, {"z"}, 9).reply, "");
  EXPECT_EQ(take(kB, wait, {"w", "w", "x"}).reply, "");
  EXPECT_EQ(take(kC, wait, {"w", "y"}).reply, "");
  EXPECT_EQ(take(kA, wait, {"w", "q2"}).reply, "");
  EXPECT_GT(bytes(), 0U);
  keys_.forget(kC);
  reply(queue_push, {"q2", "1"});
  reply(set, {"w", "1"});
  reply(queue_pop, {"q"});
  reply(queue_pop, {"q2"});
  keys_.forget(kB);
  for (const char* const key : {"a", "b", "n", "w", "z"})
    reply(delete_key, {key});
  EXPECT_EQ(bytes(), 0U);
}

TEST_P(Keys, AFullStoreRefusesAndKeepsWhatItHas) {
  keys_ = KeySpace(1 << 20);
  const std::string big(200'000, 'x');
  EXPECT_EQ(take(kA, set, {"a", big}).refused, "");
  EXPECT_EQ(take(kA, set, {"b", big}).refused, "");
  EXPECT_EQ(take(kA, set, {"c", big}).refused, "");
  EXPECT_EQ(take(kA, set, {"d", big}).refused, "");
  EXPECT_EQ(take(kA, set, {"e", big}).refused, "");
  EXPECT_THAT(take(kA, set, {"f", big}).refused, HasSubstr("full (1 MiB)"));
  EXPECT_EQ(reply(get, {"a"}), text(big));
  EXPECT_EQ(reply(check, {"f"}), kNo);
}

// What a wait costs is bounded by its bytes, whatever others wait for: named more than once, a key
// is one entry, and is found again without a look at the entries of others.
TEST_P(Keys, AKeyNamedAThousandTimesIsOneEntry) {
  EXPECT_EQ(take(kB, wait, {"k"}).reply, "");
  const std::size_t one = bytes();
  EXPECT_EQ(take(kC, wait, Texts(kMaxKeys, "k")).reply, "");
  EXPECT_EQ(bytes(), 2 * one);
  EXPECT_EQ(keys_.waits()[1].missing, 1U);
  EXPECT_EQ(take(kB, wait, Texts(kMaxKeys, "k")).reply, "");
  EXPECT_EQ(bytes(), 2 * one) << "in place of the first";
  EXPECT_EQ(take(kC, cancel_wait, {}).reply, kNo);
  EXPECT_EQ(bytes(), one);
  EXPECT_THAT(released(set, {"k", "v"}), ElementsAre(kB));
}

TEST_P(Keys, ManyWhoWaitForTheSameManyKeysLeaveOneByOne) {
  Texts names;
  for (int i = 0; i < 300; ++i)
    names.push_back("rank/" + std::to_string(i));
  constexpr StoreClientId kClients = 3000;
  for (StoreClientId client = 1; client <= kClients; ++client)
    EXPECT_EQ(take(client, wait, names).reply, "");
  for (StoreClientId client = kClients; client > 1; --client)
    keys_.forget(client);
  ASSERT_EQ(keys_.waits().size(), 1U);
  EXPECT_EQ(keys_.waits()[0].missing, names.size());
  keys_.forget(1);
  EXPECT_EQ(bytes(), 0U);
}

TEST_P(Keys, AReplyTooLargeToBeSentIsNotMade) {
  keys_ = KeySpace(KeySpace::kMaxBytes, 1 << 20);
  for (int i = 0; i < 200; ++i)
    reply(set, {std::string(8000, 'k') + std::to_string(i), std::string(8000, 'v')});
  for (const auto& [command, texts] : std::vector<std::pair<StoreCommand, Texts>>{
           {list_keys, {}}, {multi_get, Texts(150, std::string(8000, 'k') + "7")}}) {
    const Answer answer = take(kA, command, texts);
    EXPECT_THAT(answer.refused, HasSubstr("larger than 1 MiB"));
    EXPECT_EQ(answer.reply, "");
  }
}

TEST_P(Keys, AppendMakesAValueOfABoundedSize) {
  const std::string large(kMaxValueBytes, 'x');
  for (std::size_t size = 0; size < KeySpace::kMaxAppendedBytes; size += large.size())
    EXPECT_EQ(reply(append, {"k", large}), "");
  EXPECT_THAT(take(kA, append, {"k", "y"}).refused, HasSubstr("beyond 32 MiB"));
  EXPECT_EQ(reply(get, {"k"}).size(), 8 + KeySpace::kMaxAppendedBytes);
}

TEST(StoreSize, GrowsWithTheRanksToAGibibyte) {
  EXPECT_EQ(KeySpace::max_bytes_of(2), 264ULL << 20);
  EXPECT_EQ(KeySpace::max_bytes_of(64), 512ULL << 20);
  EXPECT_EQ(KeySpace::max_bytes_of(4096), 1ULL << 30);
}

TEST_P(Keys, AReplyIsBounded) {
  const std::string big(kMaxValueBytes, 'x');
  reply(set, {"a", big});
  EXPECT_EQ(reply(multi_get, Texts(15, "a")).size(), 15 * (big.size() + 8));
  EXPECT_THAT(take(kA, multi_get, Texts(17, "a")).refused, HasSubstr("128 MiB"));
}

// Between two steps of one request others are served: it sees what they have changed.
class KeysInSteps : public testing::Test {
 protected:
  static KeySpace::Work work(StoreClientId client, StoreCommand command, Texts texts) {
    return {client, StoreRequest{command, std::move(texts), 0}, {}};
  }
  KeySpace::StepResult step(KeySpace::Work& work) {
    return keys_.step(work, [] { return true; });
  }
  /// All of it.
  KeySpace::StepResult take(StoreClientId client, StoreCommand command, Texts texts) {
    KeySpace::Work whole = work(client, command, std::move(texts));
    return keys_.step(whole, [] { return false; });
  }

  KeySpace keys_;
};

TEST_F(KeysInSteps, AStepIsOneKeyOrValue) {
  KeySpace::Work sets = work(kA, multi_set, {"a", "1", "b", "2"});
  EXPECT_FALSE(step(sets).is_done);
  EXPECT_EQ(keys_.bytes(), 2 * 64 + 2);
  EXPECT_TRUE(step(sets).is_done);
  EXPECT_EQ(keys_.bytes(), 2 * (2 * 64 + 2));
}

TEST_F(KeysInSteps, AWaitEndsThoughItsKeysComeWhileItIsRead) {
  KeySpace::Work waits = work(kB, wait, {"a", "b", "c"});
  EXPECT_FALSE(step(waits).is_done);
  EXPECT_THAT(take(kA, multi_set, {"a", "1", "b", "2"}).released, IsEmpty());
  EXPECT_THAT(keys_.waits(), IsEmpty());
  EXPECT_FALSE(step(waits).is_done);
  EXPECT_TRUE(step(waits).is_done);
  EXPECT_EQ(waits.reply, "");
  ASSERT_EQ(keys_.waits().size(), 1U);
  EXPECT_EQ(keys_.waits()[0].key, "c");
  EXPECT_THAT(take(kA, set, {"c", "3"}).released, ElementsAre(kB));
}

TEST_F(KeysInSteps, AWaitWhoseKeysHaveAllComeMeanwhileIsOverAtOnce) {
  KeySpace::Work waits = work(kB, wait, {"a", "b"});
  EXPECT_FALSE(step(waits).is_done);
  EXPECT_THAT(take(kA, multi_set, {"a", "1", "b", "2"}).released, IsEmpty());
  EXPECT_TRUE(step(waits).is_done);
  EXPECT_EQ(waits.reply, kYes);
  EXPECT_THAT(keys_.waits(), IsEmpty());
}

TEST_F(KeysInSteps, AClientThatIsGoneWhileItsWaitIsReadIsNotReleased) {
  KeySpace::Work waits = work(kB, wait, {"a", "b"});
  EXPECT_FALSE(step(waits).is_done);
  keys_.forget(kB);
  EXPECT_THAT(take(kA, multi_set, {"a", "1", "b", "2"}).released, IsEmpty());
  EXPECT_TRUE(keys_.collect_garbage([] { return false; }));
  take(kA, delete_key, {"a"});
  take(kA, delete_key, {"b"});
  EXPECT_EQ(keys_.bytes(), 0U);
}

TEST_F(KeysInSteps, AListCountsWhatItNames) {
  take(kA, multi_set, {"a", "1", "c", "1", "e", "1"});
  KeySpace::Work list = work(kB, list_keys, {});
  EXPECT_FALSE(step(list).is_done);
  take(kA, delete_key, {"a"});
  take(kA, delete_key, {"c"});
  take(kA, multi_set, {"d", "1", "0", "1"});
  while (!step(list).is_done) {
  }
  EXPECT_EQ(list.reply, number(3) + text("a") + text("d") + text("e"));
}

TEST_F(KeysInSteps, ValuesThatGrowWhileTheyAreReadKeepAReplyBounded) {
  keys_ = KeySpace(KeySpace::kMaxBytes, 1000);
  take(kA, multi_set, {"a", "1", "b", "1"});
  KeySpace::Work gets = work(kB, multi_get, {"a", "b"});
  for (int i = 0; i < 2; ++i)
    EXPECT_FALSE(step(gets).is_done);
  take(kA, set, {"b", std::string(1000, 'x')});
  EXPECT_TRUE(step(gets).is_done);
  EXPECT_THAT(gets.refused, HasSubstr("larger than"));
}

TEST_F(KeysInSteps, EverythingIsGivenBackByAndBy) {
  take(kA, multi_set, {"a", "1", "b", "2"});
  take(kA, queue_push, {"q", "1"});
  take(kA, queue_push, {"q", "2"});
  take(kA, wait, {"x", "y"});
  take(kB, wait, {"x"});
  int steps = 1;
  while (!keys_.clear([] { return true; }))
    ++steps;
  EXPECT_EQ(steps, 8);  // two keys, two entries, three waits, and one that finds nothing
  EXPECT_TRUE(keys_.has_no_garbage());
  KeySpace::Work asks = work(kA, check, {"q"});
  EXPECT_TRUE(step(asks).is_done);
  EXPECT_EQ(asks.reply, kNo) << "a queue whose entries are gone is gone";
}

}  // namespace
}  // namespace ddp::launcher
