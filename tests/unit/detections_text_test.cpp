// Found objects as text.
#include "worker/data/detections_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace ddp::worker {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames{"person", "a \"dog\""};
const std::vector<FoundObject> kFound{{0, 0.9123456, {10, 20, 110.5F, 60}},
                                      {1, 0.05, {0, 0, 200, 100}}};

TEST(DetectionsText, ALineNamesEachObjectOrSaysThatThereIsNone) {
  EXPECT_EQ(to_line(kFound, kNames), "person 91.2 %  a \"dog\" 5.0 %");
  EXPECT_EQ(to_line({}, kNames), "no objects");
}

TEST(DetectionsText, JsonIsReadBackAsItWas) {
  const json::array objects = json::parse(to_json(kFound, kNames)).as_array();
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[1].at("class"), "a \"dog\"");
  EXPECT_EQ(objects[1].at("number"), 1);
  EXPECT_DOUBLE_EQ(objects[0].at("score").as_double(), 0.91235);
  EXPECT_EQ(json::value_to<std::vector<double>>(objects[0].at("box")),
            (std::vector<double>{10, 20, 110.5, 60}));
  EXPECT_EQ(to_json({}, kNames), "[]");
}

TEST(DetectionsText, YoloHasCentresAndSizesInShares) {
  EXPECT_EQ(to_yolo(kFound, {100, 200}),
            "0 0.301250 0.400000 0.502500 0.400000 0.91235\n"
            "1 0.500000 0.500000 1.000000 1.000000 0.05000\n");
  EXPECT_EQ(to_yolo({}, {100, 200}), "");
}

TEST(DetectionsText, CocoHasCornersAndSizesInPixels) {
  const json::array entries = json::parse("[" + to_coco(kFound, "42") + "]").as_array();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].at("image_id"), 42);
  EXPECT_EQ(entries[1].at("category_id"), 1);
  EXPECT_EQ(json::value_to<std::vector<double>>(entries[0].at("bbox")),
            (std::vector<double>{10, 20, 100.5, 40}));
  EXPECT_DOUBLE_EQ(entries[0].at("score").as_double(), 0.91235);
  EXPECT_EQ(to_coco({}, "42"), "");
}

TEST(DetectionsText, AnImageIsTheNumberThatItsFileIsCalledBy) {
  using Names = std::vector<std::filesystem::path>;
  EXPECT_THAT(coco_image_ids(Names{"000000000139", "val/7", "a\"b", "8a"}),
              ElementsAre("139", "7", R"("a\"b")", R"("8a")"));
  // Frames of two films are not one image.
  EXPECT_THAT(coco_image_ids(Names{"a/0001", "b/0001", "2"}),
              ElementsAre(R"("a/0001")", R"("b/0001")", "2"));
  EXPECT_THAT(coco_image_ids(Names{"-5", "99999999999999999999"}),
              ElementsAre(R"("-5")", R"("99999999999999999999")"));
  EXPECT_THAT(coco_image_ids(Names{}), IsEmpty());
}

}  // namespace
}  // namespace ddp::worker
