#include "launcher/plan/start/node_zero_claim.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

using Claim = NodeZeroClaim;

TEST(NodeZeroClaim, TheFirstRowThatAppliesDecides) {
  struct Row {
    ClaimFacts facts;
    Claim claim;
  };
  const Row rows[] = {
      {{1, 3, false, false}, Claim::alone},
      {{2, 1, true, true}, Claim::none},
      {{2, std::nullopt, false, true}, Claim::none},
      {{2, 0, std::nullopt, false}, Claim::sure},
      {{2, std::nullopt, true, false}, Claim::sure},
      {{2, std::nullopt, std::nullopt, true}, Claim::first_come},
      {{2, std::nullopt, std::nullopt, false}, Claim::none},
  };
  for (std::size_t i = 0; i < std::size(rows); ++i)
    EXPECT_EQ(claim_node_zero(rows[i].facts), rows[i].claim) << i;
}

}  // namespace
}  // namespace ddp::launcher
