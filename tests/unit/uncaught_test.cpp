#include "worker/train/failure/uncaught.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <new>
#include <stdexcept>

#include "worker/train/failure/error_reporter.h"

namespace gloo {

struct OfGloo : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace gloo

namespace ddp::worker {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct OfAUser : std::out_of_range {
  using std::out_of_range::out_of_range;
};

template <typename Throw>
Uncaught uncaught_of(Throw fail) {
  try {
    fail();
  } catch (const std::exception& error) {
    return as_error(error);
  } catch (...) {
    return as_other_error();
  }
  return {Error("nothing was thrown", 0)};
}

template <typename Throw>
Error error_of(Throw fail) {
  return uncaught_of(fail).error;
}

struct WithoutText : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return nullptr; }
};

enum class ThrownEnum { red };

TEST(Uncaught, ThrownNonExceptionIsNamedByTypeAndPlace) {
  const Uncaught number = uncaught_of([] { throw 7; });
  EXPECT_EQ(number.error.code(), 1);
  EXPECT_STREQ(number.error.what(), "int: 7");
  EXPECT_THAT(number.stack, Not(IsEmpty()));
  EXPECT_STREQ(error_of([] { throw "text"; }).what(), "char const*: text");
  EXPECT_STREQ(error_of([] { throw std::string("text"); }).what(), "std::string: text");
  EXPECT_STREQ(error_of([] { throw ThrownEnum::red; }).what(),
               "ddp::worker::(anonymous namespace)::ThrownEnum");
}

TEST(Uncaught, CausesAreToldAndTextsAreShort) {
  const Error nested = error_of([] {
    try {
      try {
        throw 7;
      } catch (...) {
        std::throw_with_nested(std::out_of_range("inner"));
      }
    } catch (...) {
      std::throw_with_nested(std::runtime_error("outer"));
    }
  });
  EXPECT_STREQ(
      nested.what(),
      "std::runtime_error: outer\n  caused by std::out_of_range: inner\n  caused by int: 7");
  EXPECT_STREQ(error_of([] { throw WithoutText(); }).what(),
               "ddp::worker::(anonymous namespace)::WithoutText");
  const std::string much =
      error_of([] { throw std::runtime_error(std::string(1 << 20, 'x')); }).what();
  EXPECT_LT(much.size(), 17'000u);
  EXPECT_THAT(much, testing::EndsWith("x... (1048576 bytes)"));
}

TEST(Uncaught, OursStaysAsItIs) {
  const Error error = error_of([] { throw PeerError("rank 1 is late", exit_code::kTimeout); });
  EXPECT_EQ(error.code(), 124);
  EXPECT_STREQ(error.what(), "rank 1 is late");
}

TEST(Uncaught, AUsersOwnIsNamedByItsType) {
  const Uncaught plain = uncaught_of([] { throw std::runtime_error("two\nlines"); });
  EXPECT_EQ(plain.error.code(), 1);
  EXPECT_STREQ(plain.error.what(), "std::runtime_error: two\nlines");
  EXPECT_THAT(plain.stack, Not(IsEmpty()));
  const Uncaught own = uncaught_of([] { throw OfAUser(""); });
  EXPECT_EQ(own.error.code(), 1);
  EXPECT_STREQ(own.error.what(), "ddp::worker::(anonymous namespace)::OfAUser");
  EXPECT_THAT(own.stack, Not(IsEmpty()));
}

TEST(Uncaught, ALostPeerIsToldByItsType) {
  const Error c10d = error_of([] { C10_THROW_ERROR(DistNetworkError, "reset"); });
  EXPECT_EQ(c10d.code(), 97);
  EXPECT_THAT(c10d.what(), StartsWith("lost a peer: reset"));
  EXPECT_EQ(error_of([] { throw gloo::OfGloo("reset"); }).code(), 97);
  // The text alone does not make one.
  EXPECT_EQ(error_of([] { throw std::runtime_error("Connection closed by peer"); }).code(), 1);
}

/// What it is when it leaves code of the program's own.
template <typename Throw>
Uncaught own_of(Throw fail) {
  return uncaught_of([&] {
    try {
      fail();
    } catch (const c10::Error& error) {
      throw_as_user_code_error(error);
    }
  });
}

template <typename Throw>
Error own_error_of(Throw fail) {
  return own_of(fail).error;
}

TEST(Uncaught, LibTorchsInCodeOfTheProgramsOwnIsTheProgramsWithTypeAndText) {
  const Uncaught shapes = own_of([] { (void)at::ones({2, 3}).matmul(at::ones({4, 5})); });
  EXPECT_EQ(shapes.error.code(), 1);
  EXPECT_THAT(shapes.error.what(),
              AllOf(StartsWith("c10::Error: "),
                    EndsWith("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)")));
  EXPECT_THAT(shapes.stack, Not(IsEmpty()));
  const Error typed = own_error_of([] { C10_THROW_ERROR(ValueError, "not that value"); });
  EXPECT_EQ(typed.code(), 1);
  EXPECT_THAT(typed.what(), StartsWith("c10::ValueError: not that value"));
}

TEST(Uncaught, ALostPeerALackOfMemoryAndAFailingDeviceAreNotTheProgramsAnywhere) {
  EXPECT_EQ(own_error_of([] { C10_THROW_ERROR(DistNetworkError, "reset"); }).code(), 97);
  EXPECT_EQ(own_error_of([] { C10_THROW_ERROR(OutOfMemoryError, "80 GiB"); }).code(), 125);
  EXPECT_EQ(own_error_of([] { (void)at::empty({std::int64_t{1} << 60}); }).code(), 125);
  const c10::SourceLocation here{"", "", 0};
  EXPECT_EQ(
      own_error_of([&] { throw c10::AcceleratorError(here, 1, "fallen off the bus"); }).code(),
      125);
}

TEST(Uncaught, ALackOfMemoryIsToldWithWhatTakesLess) {
  const auto allocate = [] {
    C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory. Tried 2 GiB.");
  };
  EXPECT_STREQ(
      error_of(allocate).what(),
      "LibTorch: CUDA out of memory. Tried 2 GiB. A smaller batch for each rank takes less "
      "of it (data.batch_per_rank); with as much more of train.accumulate the whole batch "
      "stays what it is.");
  EXPECT_THAT(error_of([] { (void)at::empty({std::int64_t{1} << 60}); }).what(),
              HasSubstr("data.batch_per_rank"));
}

c10::AcceleratorError device_error(int code) {
  return {c10::SourceLocation{"", "", 0}, code, "CUDA error: it is so\nCompile with more."};
}

TEST(Uncaught, LostGpuErrorSaysHowToFindTheCause) {
  for (const int code : {700, 710, 719, 999}) {
    const Error lost = error_of([code] { throw device_error(code); });
    EXPECT_EQ(lost.code(), 125);
    EXPECT_THAT(lost.what(), StartsWith("LibTorch: CUDA error: it is so. The GPU does nothing"));
    EXPECT_THAT(lost.what(), HasSubstr("CUDA_LAUNCH_BLOCKING=1"));
  }
  // Of an argument that CUDA does not take, a device that is not there.
  for (const int code : {1, 2, 100, 101, 801})
    EXPECT_STREQ(error_of([code] { throw device_error(code); }).what(),
                 "LibTorch: CUDA error: it is so");
}

/// A destructor that runs says so.
struct Unwound {
  ~Unwound() { (void)!::write(STDERR_FILENO, "unwound\n", 8); }
};

void throw_past_an_object(int code) {
  report_on_terminate();
  report_lost_gpus();
  const Unwound object;
  try {
    throw device_error(code);
  } catch (const c10::Error&) {
    (void)!::write(STDERR_FILENO, "caught\n", 7);
  }
}

TEST(UncaughtDeathTest, AGpuThatIsLostEndsTheProcessWhereThatIsThrown) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(throw_past_an_object(710),
              testing::ExitedWithCode(125),
              testing::AllOf(HasSubstr("ddp-worker: LibTorch: CUDA error: it is so. The GPU does"),
                             Not(HasSubstr("caught")),
                             Not(HasSubstr("unwound"))));
}

TEST(Uncaught, AnotherErrorOfAGpuIsThrownAsEver) {
  testing::internal::CaptureStderr();
  throw_past_an_object(1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "caught\nunwound\n");
}

[[noreturn]] void fail_once_more() {
  throw device_error(719);
}

/// A program with a loop of its own.
void lose_a_gpu_in_a_destructor() {
  error_reporter().may_leave_main = true;
  report_on_terminate();
  report_lost_gpus();
  struct Freed {
    ~Freed() { fail_once_more(); }
  };
  const Freed tensor;
  throw c10::AcceleratorError({"", "", 0}, 710, "CUDA error: the first");
}

TEST(UncaughtDeathTest, FirstErrorIsPrintedWhenUnwindingThrowsAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose_a_gpu_in_a_destructor(),
              testing::ExitedWithCode(125),
              testing::AllOf(HasSubstr("CUDA error: the first."), Not(HasSubstr("it is so"))));
}

TEST(Uncaught, LibTorchsOwnAndALackOfMemoryAreTheSystems) {
  const Error torch = error_of([] { C10_THROW_ERROR(ValueError, "shapes do not match"); });
  EXPECT_EQ(torch.code(), 125);
  EXPECT_THAT(torch.what(), StartsWith("LibTorch: shapes do not match"));
  const Error memory = error_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), 125);
  EXPECT_THAT(memory.what(), HasSubstr("std::bad_alloc"));
}

}  // namespace
}  // namespace ddp::worker
