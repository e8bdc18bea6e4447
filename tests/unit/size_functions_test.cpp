// Python's operators on sizes.
#include "worker/python/size_functions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace ddp::worker {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

c10::IValue call(const std::string& name, std::int64_t a, std::int64_t b) {
  return size_function(name)({a, b});
}

TEST(SizeFunctions, AreThoseOfPython) {
  EXPECT_EQ(call("_operator.add", 3, -5).toInt(), -2);
  EXPECT_EQ(call("_operator.sub", 3, -5).toInt(), 8);
  EXPECT_EQ(call("_operator.mul", 3, -5).toInt(), -15);
  EXPECT_EQ(call("_operator.floordiv", 7, 2).toInt(), 3);
  EXPECT_EQ(call("_operator.floordiv", -7, 2).toInt(), -4);
  EXPECT_EQ(call("_operator.floordiv", 7, -1).toInt(), -7);
  EXPECT_EQ(call("_operator.mod", -7, 2).toInt(), 1);
  EXPECT_EQ(call("_operator.mod", 7, -2).toInt(), -1);
  EXPECT_EQ(call("_operator.mod", 7, -1).toInt(), 0);
  EXPECT_EQ(call("_operator.truediv", 7, 2).toDouble(), 3.5);
  EXPECT_EQ(size_function("_operator.neg")({std::int64_t{7}}).toInt(), -7);
  EXPECT_TRUE(call("_operator.le", 2, 2).toBool());
  EXPECT_FALSE(call("_operator.ne", 2, 2).toBool());
  EXPECT_EQ(call("_operator.pow", 3, 4).toInt(), 81);
  EXPECT_EQ(size_function("_operator.pow")({std::int64_t{9}, 0.5}).toDouble(), 3);
  EXPECT_EQ(size_function("_operator.mul")({std::int64_t{3}, 0.5}).toDouble(), 1.5);
  EXPECT_EQ(size_function("math.trunc")({-1.5}).toInt(), -1);
  EXPECT_EQ(call("torch.sym_max", 3, 4).toInt(), 4);
  EXPECT_EQ(call("torch.sym_min", 3, 4).toInt(), 3);
  EXPECT_EQ(size_function("torch.sym_float")({std::int64_t{7}}).toDouble(), 7);
}

TEST(SizeFunctions, WhatCannotBeComputedIsAnError) {
  EXPECT_THROW(call("_operator.add", kMost, 1), std::runtime_error);
  EXPECT_THROW(call("_operator.mul", kMost, 2), std::runtime_error);
  EXPECT_THROW(call("_operator.floordiv", kLeast, -1), std::runtime_error);
  EXPECT_THROW(call("_operator.floordiv", 1, 0), std::runtime_error);
  EXPECT_THROW(call("_operator.mod", 1, 0), std::runtime_error);
  EXPECT_THROW(size_function("_operator.add")({std::int64_t{1}}), std::exception);
  EXPECT_THROW(call("_operator.pow", 10, 30), std::runtime_error);
  EXPECT_EQ(size_function("_operator.lshift"), nullptr);
}

}  // namespace
}  // namespace ddp::worker
