#include "launcher/plan/wire/connection_slots.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

constexpr auto kNobody = std::nullopt;

TEST(ConnectionSlots, TheFirstConnectionsNeedNobodysSlot) {
  ConnectionSlots slots(3, 2);
  EXPECT_EQ(slots.find_to_drop("a"), kNobody);
  EXPECT_EQ(slots.find_to_drop(), kNobody);
  slots.take(1, "a");
  slots.take(2, "a");
  EXPECT_EQ(slots.taken(), 2U);
  EXPECT_EQ(slots.find_to_drop("b"), kNobody);
}

TEST(ConnectionSlots, ASourceThatHasAllItMayHaveLosesItsOwn) {
  ConnectionSlots slots(10, 2);
  slots.take(1, "b");
  slots.take(2, "a");
  slots.take(3, "a");
  EXPECT_EQ(slots.find_to_drop("a"), 2U);
  EXPECT_EQ(slots.find_to_drop("b"), kNobody);
  slots.release(2);
  EXPECT_EQ(slots.find_to_drop("a"), kNobody);
}

TEST(ConnectionSlots, WhenAllAreTakenTheSourceThatHasMostLosesOne) {
  ConnectionSlots slots(4, 4);
  slots.take(1, "good");
  slots.take(2, "flood");
  slots.take(3, "flood");
  slots.take(4, "flood");
  EXPECT_EQ(slots.find_to_drop("good"), 2U);
  EXPECT_EQ(slots.find_to_drop("other"), 2U);
  EXPECT_EQ(slots.find_to_drop("flood"), 2U);
}

TEST(ConnectionSlots, AConnectionThatMakesProgressIsNotDropped) {
  ConnectionSlots slots(3, 3);
  slots.take(1, "a");
  slots.take(2, "a");
  slots.take(3, "b");
  slots.note_progress(1);
  EXPECT_EQ(slots.find_to_drop("c"), 2U);
  slots.note_progress(2);
  EXPECT_EQ(slots.find_to_drop("c"), 1U);
  slots.note_progress(17);  // gone already
  slots.release(17);
  EXPECT_EQ(slots.taken(), 3U);
}

// However long a flood goes on, a connection of another source that makes progress stays.
TEST(ConnectionSlots, AFloodNeverTakesThePlaceOfSomebodyElse) {
  ConnectionSlots slots(64, 32);
  constexpr ConnectionSlots::Id kGood = 1;
  slots.take(kGood, "good");
  for (ConnectionSlots::Id id = 2; id < 5000; ++id) {
    const std::string source = "flood " + std::to_string(id % 3);
    if (const auto victim = slots.find_to_drop(source)) {
      ASSERT_NE(*victim, kGood);
      slots.release(*victim);
    }
    ASSERT_EQ(slots.find_to_drop(source), kNobody);
    slots.take(id, source);
    ASSERT_LE(slots.taken(), 64U);
  }
}

TEST(ConnectionSlots, ManySourcesOfOneEachLoseTheOneWithoutProgressForLongest) {
  ConnectionSlots slots(3, 3);
  slots.take(1, "a");
  slots.take(2, "b");
  slots.take(3, "c");
  slots.note_progress(1);
  EXPECT_EQ(slots.find_to_drop("d"), 2U);
}

}  // namespace
}  // namespace ddp::launcher
