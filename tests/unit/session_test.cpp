#include "launcher/plan/start/session.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

// Session 100 began at tick 50, and was surely itself until tick 80.
constexpr Session kSession{100, 50, 80};

TEST(Session, A9_OnlyTheLeaderWithItsStartTimeProvesASession) {
  EXPECT_TRUE(proves(kSession, {100, 100, 50}));
  EXPECT_FALSE(proves(kSession, {100, 100, 51})) << "another process, that leads a session too";
  EXPECT_FALSE(proves(kSession, {100, 100, 49}));
  EXPECT_FALSE(proves(kSession, {100, 7, 50})) << "the number as a plain pid";
}

TEST(Session, A9_AMemberProvesItThatWasThereWhenTheNumberWasItsOwn) {
  EXPECT_TRUE(proves(kSession, {120, 100, 60}));
  EXPECT_TRUE(proves(kSession, {120, 100, 80}));
  EXPECT_FALSE(proves(kSession, {120, 100, 81})) << "of a later session of that number, perhaps";
  EXPECT_FALSE(proves(kSession, {120, 99, 60}));
}

TEST(Session, A9_AnotherProcessWithItsNumberProvesThatItIsOver) {
  EXPECT_TRUE(disproves(kSession, {100, 100, 70}));
  EXPECT_TRUE(disproves(kSession, {100, 7, 90}));
  EXPECT_FALSE(disproves(kSession, {100, 100, 50}));
  EXPECT_FALSE(disproves(kSession, {120, 100, 90}));
}

}  // namespace
}  // namespace ddp::launcher
