// Ranks compare texts through the store before they join: the ones that differ are named.
#include "worker/dist/agreement.h"

#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "common/error.h"
#include "tests/unit/ranks.h"
#include "worker/dist/device.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

struct Ending {
  int code = 0;
  std::string text;
};

Ending ending_of(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const PeerError& error) {
    return {error.code(), error.what()};
  }
}

/// What each rank with a text ends with; a rank without one never comes.
std::vector<Ending> agree_all(const std::vector<std::optional<std::string>>& texts,
                              milliseconds timeout,
                              TextRule rule = TextRule::equal) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<Ending> endings(texts.size());
  std::vector<std::jthread> ranks;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank]) continue;
    ranks.emplace_back([&, rank] {
      const ComparingRanks voters{
          store, static_cast<int>(rank), static_cast<int>(texts.size()), timeout};
      endings[rank] = ending_of([&] {
        agree(voters, {"q", "model", "did not join", rule}, *texts[rank]);
      });
    });
  }
  ranks.clear();
  return endings;
}

TEST(StoreAgreement, EqualRanksGoOn) {
  for (const Ending& ending : agree_all({"a", "a", "a"}, seconds(20)))
    EXPECT_EQ(ending.code, 0);
}

TEST(StoreAgreement, EveryRankNamesTheOddOneInTheSameWords) {
  for (const Ending& ending : agree_all({"a", "a", "b"}, seconds(20))) {
    EXPECT_EQ(ending.code, exit_code::kRefused);
    EXPECT_THAT(ending.text, HasSubstr("model: rank 2 has \"b\", ranks 0 and 1 have \"a\". Start"));
  }
}

TEST(StoreAgreement, AMissingRankIsNamedByAll) {
  const std::vector<Ending> endings = agree_all({"a", {}, "a"}, milliseconds(300));
  for (const std::size_t rank : {0, 2}) {
    EXPECT_EQ(endings[rank].code, exit_code::kTimeout);
    EXPECT_THAT(endings[rank].text, HasSubstr("rank 1 of 3 did not join within 300ms"));
  }
}

TEST(StoreAgreement, WithoutRankZeroTheOthersNameIt) {
  const std::vector<Ending> endings = agree_all({{}, "a", "b"}, milliseconds(300));
  for (const std::size_t rank : {1, 2})
    EXPECT_THAT(endings[rank].text, HasSubstr("rank 0 of 3 did not join"));
}

/// Its server, rank 0, leaves as soon as the others have read what it published, or have given up.
class StoreOfALeavingRank : public c10d::HashStore {
 public:
  using HashStore::set;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    HashStore::set(key, value);
    has_left_ = has_left_ || key.find("/read/") != std::string::npos;
  }
  bool check(const std::vector<std::string>& keys) override {
    TORCH_CHECK_WITH(DistNetworkError, !has_left_, "closed");
    return HashStore::check(keys);
  }

 private:
  bool has_left_ = false;
};

TEST(StoreAgreement, ARankThatGivesUpNeedsTheStoreNoMore) {
  const auto store = c10::make_intrusive<StoreOfALeavingRank>();
  const ComparingRanks rank_1{store, 1, 3, milliseconds(100)};
  const Ending ending = ending_of([&] { agree(rank_1, {"q", "model", "did not join"}, "a"); });
  EXPECT_EQ(ending.code, exit_code::kTimeout) << ending.text;
  EXPECT_THAT(ending.text, HasSubstr("ranks 0 and 2 of 3 did not join"));
}

TEST(StoreAgreement, ADifferenceIsToldBeforeTheLastRankComes) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Ending> endings = agree_all({"a", "b", {}}, seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  for (const std::size_t rank : {0, 1})
    EXPECT_EQ(endings[rank].code, exit_code::kRefused);
}

// NCCL's own refusal goes by it.
TEST(StoreAgreement, NodesHaveTheNamesThatNcclGivesThem) {
  Device gpu;
  EXPECT_EQ(nccl_gpu_id(gpu, {}), "") << "not known";
  gpu.identity = "GPU-1";
  EXPECT_EQ(nccl_gpu_id(gpu, {}), "GPU-1 of " + host_name());
  const auto ends = [&gpu](const std::string& first, const std::string& second) {
    return agree_all(
        {nccl_gpu_id(gpu, {{"NCCL_HOSTID", first}}), nccl_gpu_id(gpu, {{"NCCL_HOSTID", second}})},
        seconds(20),
        TextRule::distinct)[0];
  };
  EXPECT_EQ(ends("a", "b").code, 0);
  EXPECT_EQ(ends("a", "a").code, exit_code::kRefused);
  EXPECT_THAT(ends("a", "a").text, HasSubstr("GPU-1 of a"));
}

TEST(StoreAgreement, AGroupAsksOneQuestionAfterTheOther) {
  const std::vector<Ending> endings = on_ranks(2, [](Group& group) {
    group.require_same("data", "digits");
    return ending_of([&] { group.require_same("model", group.is_root() ? "convnet" : "lenet"); });
  });
  for (const Ending& ending : endings)
    EXPECT_THAT(ending.text, HasSubstr("their model: rank 1"));
}

TEST(StoreAgreement, AloneThereIsNobodyToDisagree) {
  EXPECT_NO_THROW(single_process_group()->require_same("model", "convnet"));
}

}  // namespace
}  // namespace ddp::worker
