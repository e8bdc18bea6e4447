// The addresses of this node, as the kernel has them.
#include "launcher/os/interfaces.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(Interfaces, AllOfLoopbackIsOurs) {
  for (const char* const address : {"127.0.0.1", "127.0.1.1", "::ffff:127.0.0.1"}) {
    EXPECT_EQ(interface_of(address), "lo") << address;
    EXPECT_TRUE(is_own_address(address));
  }
}

TEST(Interfaces, UnassignedAddressesBelongToNoInterface) {
  for (const char* const address : {"198.51.100.1", "2001:db8::1", "no address", "", "0.0.0.0"}) {
    EXPECT_EQ(interface_of(address), "") << address;
    EXPECT_FALSE(is_own_address(address));
  }
}

}  // namespace
}  // namespace ddp::launcher
