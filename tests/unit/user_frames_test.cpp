#include "worker/train/failure/user_frames.h"

#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "common/node/environment.h"

namespace ddp::worker {

// Not in an anonymous namespace: the name is what the test reads.
[[gnu::noinline]] void multiply_what_does_not_fit(int depth) {
  if (depth > 0) multiply_what_does_not_fit(depth - 1);
  (void)at::ones({2, 3}).matmul(at::ones({4, 5}));
}

/// A template's function is told with the type that it returns, here one of a library.
template <typename T>
[[gnu::noinline]] at::Tensor multiply_in_a_template(T depth) {
  multiply_what_does_not_fit(static_cast<int>(depth));
  return at::ones({1});
}

namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

std::string backtrace_of(const std::function<void()>& fail) {
  try {
    fail();
  } catch (const c10::Error& error) {
    return error.backtrace()->get();
  }
  return "";
}

TEST(UserFrames, TheInnermostOfThisProgramAreNamedWithoutThoseOfLibraries) {
  const std::string backtrace = backtrace_of([] { multiply_what_does_not_fit(0); });
  const std::vector<std::string> frames = user_frames(read_backtrace(backtrace));
  ASSERT_THAT(frames, Not(IsEmpty())) << backtrace;
  EXPECT_THAT(frames[0], StartsWith("ddp::worker::multiply_what_does_not_fit(int)"));
  EXPECT_THAT(frames, Each(Not(StartsWith("at::"))));
}

TEST(UserFrames, AFunctionThatReturnsATypeOfALibraryIsOurs) {
  const std::string backtrace = backtrace_of([] { (void)multiply_in_a_template<long>(0); });
  EXPECT_THAT(user_frames(read_backtrace(backtrace)),
              Contains(HasSubstr("multiply_in_a_template<long>")))
      << backtrace;
}

TEST(UserFrames, ThereAreNoMoreThanTen) {
  EXPECT_THAT(user_frames(read_backtrace(backtrace_of([] { multiply_what_does_not_fit(30); }))),
              SizeIs(10));
}

TEST(UserFrames, WithoutAddr2lineTheOffsetInTheProgramIsLeft) {
  const std::string backtrace = backtrace_of([] { multiply_what_does_not_fit(0); });
  const std::string path = find_variable(read_environment(), "PATH").value_or("");
  ::setenv("PATH", "/nowhere", 1);
  const std::vector<std::string> frames = user_frames(read_backtrace(backtrace));
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_THAT(frames, Not(IsEmpty()));
  EXPECT_THAT(frames[0], HasSubstr("unit_worker +0x"));
}

TEST(UserFrames, TextWithoutABacktraceHasNoFrames) {
  EXPECT_THAT(read_backtrace(""), IsEmpty());
  EXPECT_THAT(user_frames(read_backtrace(
                  "frame #0: x + 0x1 (0x12 in /gone)\nframe #1: y (0x in )\nframe #2")),
              IsEmpty());
}

}  // namespace
}  // namespace ddp::worker
