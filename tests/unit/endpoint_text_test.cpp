#include "launcher/plan/endpoint_text.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(EndpointText, AnIPv6AddressStandsInBrackets) {
  EXPECT_EQ(endpoint_text("::1", 29500), "[::1]:29500");
  EXPECT_EQ(endpoint_text("127.0.0.1", 0), "127.0.0.1:0");
  EXPECT_EQ(endpoint_text("node0", 7), "node0:7");
}

}  // namespace
}  // namespace ddp::launcher
