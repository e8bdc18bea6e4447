#include "worker/plan/args.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "worker/plan/job.h"

namespace ddp::worker {
namespace {

template <typename Ask>
std::string complaint(const Ask& ask) {
  try {
    ask();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

Args args_of(const TextMap& texts) {
  return {"model.args", texts};
}

TEST(Args, AreReadByNameTypeAndRange) {
  const Args args =
      args_of({{"units", "8"}, {"share", "0.25"}, {"is_wide", "true"}, {"kind", "x y"}});
  EXPECT_EQ(args.integer("units", 1, 4096), 8);
  EXPECT_EQ(args.integer("layers", 1, 9, 2), 2);
  EXPECT_EQ(args.real("share", 0, 1), 0.25);
  EXPECT_TRUE(args.flag("is_wide"));
  EXPECT_FALSE(args.flag("is_deep", false));
  EXPECT_EQ(args.text("kind"), "x y");
  EXPECT_EQ(args.text("sort", "plain"), "plain");
  EXPECT_NO_THROW(args.require_all_read("mine"));
}

TEST(Args, WrongValuesAreReportedWithTheExpectedOnes) {
  for (const std::string bad : {"0", "4097", "-1", "8.5", "eight", "", "08"}) {
    EXPECT_EQ(complaint([&] {
                (void)args_of({{"units", bad}}).integer("units", 1, 4096);
              }),
              "model.args.units: " + (bad.empty() ? "\"\"" : bad) +
                  " is not a whole number from 1 to 4096.");
  }
  EXPECT_EQ(complaint([] {
              (void)args_of({{"share", "nan"}}).real("share", 0, 1);
            }),
            "model.args.share: nan is not a number from 0 to 1.");
  EXPECT_EQ(complaint([] {
              (void)args_of({{"wide", "yes"}}).flag("wide");
            }),
            "model.args.wide: yes is not true or false.");
  EXPECT_EQ(complaint([] { (void)args_of({}).integer("units", 1, 9); }),
            "model.args.units: is missing, and has no default. Give it in the job file, as "
            "model.args: {units: ...}.");
}

TEST(Args, AMapOfArgumentsIsFoundByItsName) {
  const Args args = args_of({{"output", "x"}, {"outputs.main", "1"}, {"outputz", "x"}});
  EXPECT_TRUE(args.has_map("outputs"));
  EXPECT_FALSE(args.has_map("output"));
  EXPECT_EQ(args.real("outputs.main", 0, 2), 1);
}

TEST(Args, UnreadArgumentsAreRefused) {
  const Args args = args_of({{"unit", "8"}, {"more", "1"}});
  const Args copy = args;  // a factory may keep one
  (void)copy.integer("units", 1, 9, 4);
  EXPECT_EQ(complaint([&] { args.require_all_read("mine"); }),
            "model.args.more: mine does not take it. Allowed: units.\n"
            "model.args.unit: mine does not take it, did you mean \"units\"? Allowed: units.");
}

// An entry is found where it stands in the file, or by the argument that set it.
TEST(Args, TellTheirPlaceInTheJobFile) {
  const YamlDocument file = parse_yaml(
      "data: {batch: 32}\nmodel:\n  name: mine\n  args:\n    units: zero\n    depth: 3\n",
      "job.yaml");
  const std::vector<JobOverride> overrides{{"model.args.depth", "x", "model.args.depth=x"}};
  const Job job = make_job(resolve_job(&file, overrides), 1);
  EXPECT_EQ(complaint([&] { (void)job.model.args.integer("units", 1, 9); }),
            "job.yaml:5:12: model.args.units: zero is not a whole number from 1 to 9.");
  EXPECT_EQ(complaint([&] { (void)job.model.args.integer("depth", 1, 9); }),
            "model.args.depth=x: model.args.depth: x is not a whole number from 1 to 9.");
  EXPECT_TRUE(complaint([&] {
                (void)job.model.args.integer("heads", 1, 9);
              }).starts_with("model.args.heads: is missing"));
}

}  // namespace
}  // namespace ddp::worker
