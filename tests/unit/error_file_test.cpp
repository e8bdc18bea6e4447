#include "launcher/plan/failure/error_file.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(ErrorFile, BothFormsAreRead) {
  const WorkerError nested{"ValueError: x", "stack"};
  EXPECT_EQ(
      read_error(
          R"({"message":{"message":"ValueError: x","extraInfo":{"py_callstack":"stack","timestamp":"1"}}})"),
      nested);
  EXPECT_EQ(read_error(R"({"message":"flat","timestamp":1})"), (WorkerError{"flat", ""}));
}

TEST(ErrorFile, ABrokenFileIsQuotedAndNeverFatal) {
  for (const char* const text :
       {"{\"message\":", "no json", "[1]", "{\"message\":7}", "{}", "{\"message\":{}}"}) {
    const auto error = read_error(text);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_EQ(error->message, text);
  }
  EXPECT_EQ(read_error(std::string(10000, 'x'))->message.size(), 4096U);
  EXPECT_FALSE(read_error("").has_value());
}

TEST(ErrorFile, TextInStackAndStderrIsShownOnce) {
  const WorkerError error{"ValueError: one\n  two",
                          "Traceback (most recent call last):\n  File a\nValueError: one\n  two\n"};
  EXPECT_EQ(to_text(error), "Traceback (most recent call last):\n  File a\nValueError: one\n  two");
  EXPECT_EQ(to_text(WorkerError{"m", "stack\n"}), "m\nstack");
  EXPECT_EQ(to_text(WorkerError{"m\n", ""}), "m");
  using Lines = std::vector<std::string>;
  const Lines exception{"  File main", "    main()", "  File a", "ValueError: one", "  two"};
  const auto with = [&](Lines lines, const Lines& after) {
    lines.insert(lines.end(), exception.begin(), exception.end());
    lines.insert(lines.end(), after.begin(), after.end());
    return lines;
  };
  EXPECT_EQ(without_error(with({"a", "Traceback (most recent call last):"}, {"b"}), error),
            (Lines{"a", "b"}));
  EXPECT_EQ(without_error(with({}, {}), error), Lines{}) << "the head is above the last lines";
  const Lines other{"Traceback (most recent call last):", "  File a", "ValueError: other"};
  EXPECT_EQ(without_error(other, error), other);
  EXPECT_EQ(without_error({}, error), Lines{});
  const WorkerError ours{"c10::Error: shapes\n  in forward", ""};
  EXPECT_EQ(
      without_error({"a", "ddp-worker: c10::Error: shapes", "ddp-worker:   in forward"}, ours),
      (Lines{"a"}));
}

TEST(ErrorFile, TheCodeIsAddedToTheNestedForm) {
  EXPECT_EQ(with_error_code(R"({"message":{"message":"m"}})", 7),
            R"({"message":{"message":"m","errorCode":7}})");
  EXPECT_EQ(with_error_code(R"({"message":"m"})", 7), R"({"message":"m"})");
  EXPECT_EQ(with_error_code("broken", 7), "broken");
}

}  // namespace
}  // namespace ddp::launcher
