#include "worker/fetch/published_sets.h"
#include "common/job/job_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/data/sets/image_set.h"

namespace ddp::worker {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(PublishedSets, TheirWordsAreWellFormed) {
  for (const PublishedSet& set : published_sets()) {
    EXPECT_THAT(set.address, MatchesRegex("https?://.*/")) << set.name;
    EXPECT_NE(is_published(set.name), set.is_weights) << set.name;  // as data.name
    std::vector<PublishedFile> files = set.files;
    if (set.archive) files.push_back(*set.archive);
    for (const PublishedFile& file : files) {
      EXPECT_THAT(file.sha256, MatchesRegex("[0-9a-f]+")) << file.name;
      EXPECT_EQ(file.sha256.size(), set.is_weights ? 8U : 64U) << file.name;
      EXPECT_EQ(file.size_tolerance > 0, set.is_weights) << file.name;
      EXPECT_GT(file.size, 0U) << file.name;
    }
  }
}

// Two lists of the same names: what is fetched, and what is looked for.
TEST(PublishedSets, FetchedSetsAreFoundBelowDataRoot) {
  for (const PublishedSet& set : published_sets()) {
    if (set.is_weights) continue;
    const Scratch scratch;
    std::filesystem::create_directories(scratch.path() / set.folder);
    for (const PublishedFile& file : set.files)
      scratch.write(set.folder + "/" + file.name, "x");
    try {
      load_data_set({.name = set.name, .root = scratch.path()});
      FAIL() << "accepted";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot read " + (scratch.path() / set.folder).string()))
          << set.name;
    }
  }
}

TEST(PublishedSets, WeightsAreFoundByTheirModel) {
  EXPECT_EQ(weights_file_name("resnet34"), "resnet34-b627a593.pth");
  EXPECT_EQ(weights_file_name("resnet43"), std::nullopt);
  EXPECT_THAT(models_with_weights(), testing::Contains("swin_t"));
  PublishedFile file{.name = "x", .size = 5000, .sha256 = "00", .size_tolerance = 10};
  EXPECT_TRUE(file.has_size(4990));
  EXPECT_TRUE(file.has_size(5010));
  EXPECT_FALSE(file.has_size(4989));
  EXPECT_FALSE(file.has_size(5011));
}

}  // namespace
}  // namespace ddp::worker
