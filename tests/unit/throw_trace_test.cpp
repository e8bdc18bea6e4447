#include "worker/train/failure/throw_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "worker/train/failure/user_frames.h"

namespace ddp::worker {

// Not in an anonymous namespace: the names are what the tests read.
[[gnu::noinline]] void throw_from_here(const char* text) {
  throw std::runtime_error(text);
}

[[gnu::noinline]] std::exception_ptr make_here(const char* text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

[[gnu::noinline]] int take_from_an_empty_one() {
  const std::vector<int> empty;
  return empty.at(1);
}

[[gnu::noinline]] void rethrow_what_was_caught() {
  try {
    throw_from_here("first");
  } catch (const std::runtime_error&) {
    throw;
  }
}

namespace {

using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// By its own frames, where it is caught by reference, as anyone who tells it catches it.
template <typename Fail>
std::vector<std::string> frames_where(Fail fail) {
  try {
    fail();
  } catch (const std::exception& error) {
    return user_frames(stack_of(error));
  }
  return {};
}

TEST(ThrowTrace, TheInnermostFrameIsWhereItWasThrown) {
  const std::vector<std::string> frames = frames_where([] { throw_from_here("now"); });
  ASSERT_THAT(frames, Not(IsEmpty()));
  EXPECT_THAT(frames[0], StartsWith("ddp::worker::throw_from_here(char const*)"));
}

TEST(ThrowTrace, TraceStartsAtTheCallerOfTheStandardLibrary) {
  const std::vector<std::string> frames = frames_where([] { (void)take_from_an_empty_one(); });
  ASSERT_THAT(frames, Not(IsEmpty()));
  EXPECT_THAT(frames[0], StartsWith("ddp::worker::take_from_an_empty_one()"));
}

TEST(ThrowTrace, RethrownExceptionKeepsItsFirstPlace) {
  const std::vector<std::string> frames = frames_where([] { rethrow_what_was_caught(); });
  ASSERT_THAT(frames, Not(IsEmpty()));
  EXPECT_THAT(frames[0], StartsWith("ddp::worker::throw_from_here"));
}

TEST(ThrowTrace, ExceptionOfAnEndedThreadKeepsItsTrace) {
  const std::vector<std::string> frames = frames_where([] {
    std::exception_ptr first;
    std::thread loader([&first] {
      try {
        throw_from_here("first");
      } catch (const std::exception&) {
        first = std::current_exception();
      }
      for (int i = 0; i < 50; ++i)
        EXPECT_THROW(throw_from_here("another"), std::runtime_error);
    });
    loader.join();
    std::rethrow_exception(first);
  });
  ASSERT_THAT(frames, Not(IsEmpty()));
  EXPECT_THAT(frames[0], StartsWith("ddp::worker::throw_from_here"));
}

TEST(ThrowTrace, MadeExceptionComesFromWhereItWasMade) {
  // The memory of one that was thrown, and is gone, is that of the next of its kind.
  (void)frames_where([] { throw_from_here("gone"); });
  const std::vector<std::string> frames =
      frames_where([] { std::rethrow_exception(make_here("made")); });
  ASSERT_THAT(frames, Not(IsEmpty()));
  EXPECT_THAT(frames[0], StartsWith("ddp::worker::make_here(char const*)"));
}

TEST(ThrowTrace, UnthrownExceptionHasNoTrace) {
  const std::runtime_error here("here");
  EXPECT_THAT(throw_trace(&here, typeid(here)), IsEmpty());
}

TEST(ThrowTrace, HundredsOfOthersTakeItsPlaceAndNoneOfTheirsIsTold) {
  std::exception_ptr first;
  try {
    throw_from_here("first");
  } catch (const std::exception&) {
    first = std::current_exception();
  }
  const auto fail = [&first] { std::rethrow_exception(first); };
  for (int i = 0; i < 300; ++i) {
    try {
      throw_from_here("other");
    } catch (const std::exception& error) {
      EXPECT_THAT(throw_trace(dynamic_cast<const void*>(&error), typeid(error)), Not(IsEmpty()));
    }
  }
  EXPECT_THAT(frames_where(fail), IsEmpty());
}

}  // namespace
}  // namespace ddp::worker
