// Images with boxes: YOLO's label files and COCO's JSON.
#include "worker/data/sets/detection_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/data/augment/sample_image.h"
#include "worker/data/format/coco_json.h"
#include "worker/data/format/yolo_labels.h"
#include "worker/data/sets/detection_layout.h"
#include "worker/data/sets/ground_truth.h"
#include "worker/image/png.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(YoloLabels, ALineIsABoxOrAnOutline) {
  std::vector<AnnotatedBox> boxes;
  EXPECT_EQ(read_yolo_labels("3 0.5 0.5 0.5 0.25\n\n7.0\t0.25 0.25 0.75 0.25 0.5 1\r\n", boxes),
            "");
  EXPECT_THAT(boxes,
              ElementsAre(AnnotatedBox{3, {0.25F, 0.375F, 0.75F, 0.625F}},
                          AnnotatedBox{7, {0.25F, 0.25F, 0.75F, 1.0F}}));
}

TEST(YoloLabels, BoxesAreClippedToTheImage) {
  std::vector<AnnotatedBox> boxes;
  EXPECT_EQ(read_yolo_labels("0 0.9 0.5 0.4 1.005", boxes), "");
  EXPECT_FLOAT_EQ(boxes.at(0).box.left, 0.7F);
  EXPECT_EQ(boxes.at(0).box.right, 1.0F);
  EXPECT_EQ(boxes.at(0).box.top, 0.0F);
}

TEST(YoloLabels, D2WrongLinesAreNamed) {
  const auto problem = [](const std::string& text) {
    std::vector<AnnotatedBox> boxes;
    return read_yolo_labels(text, boxes);
  };
  EXPECT_THAT(problem("0 .5 .5 .1 .1\ncat .5 .5 .1 .1"), HasSubstr("line 2: \"cat\" is not the"));
  for (const char* const label : {"-1", "1.5", "nan", "inf", "1e99", "0x1"})
    EXPECT_THAT(problem(label + std::string(" .5 .5 .1 .1")), HasSubstr("number of a class"));
  EXPECT_THAT(problem("0 .5 .5 .1"), HasSubstr("line 1: 3 numbers behind the class"));
  EXPECT_THAT(problem("0 .5 .5 .1 .1 .9"), HasSubstr("5 numbers behind the class"));
  EXPECT_THAT(problem("0"), HasSubstr("0 numbers behind the class"));
  EXPECT_THAT(problem("0 .5 .5 .1 wide"), HasSubstr("\"wide\" is not a number"));
  for (const char* const box : {"320 240 20 20", "nan .5 .1 .1", ".5 .5 inf .1", "-.5 .5 .1 .1"})
    EXPECT_THAT(problem(std::string("0 ") + box), HasSubstr("is not inside of the image")) << box;
  for (const char* const box : {".5 .5 0 .1", ".5 .5 .1 0", "1.01 .5 .001 .1"})
    EXPECT_THAT(problem(std::string("0 ") + box), HasSubstr("is empty")) << box;
}

TEST(YoloLabels, D2LinesThatEndWithoutALineFeedAreNotAnOutline) {
  std::vector<AnnotatedBox> boxes;
  EXPECT_THAT(read_yolo_labels("0 .5 .5 .1 .1\r1 .5 .5 .1 .1\r0 .2 .2 .1 .1\r", boxes),
              HasSubstr("line 1: \".1?1\" is not a number"));
  EXPECT_THAT(boxes, IsEmpty());
}

CocoAnnotations parse(std::string text, std::size_t piece = 1000000) {
  return parse_coco_json(
      [&](std::span<std::byte> buffer) {
        const std::size_t size = std::min({piece, buffer.size(), text.size()});
        std::memcpy(buffer.data(), text.data(), size);
        text.erase(0, size);
        return size;
      },
      "file.json");
}

std::string problem_of(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing";
}

/// With categories 3 and 90, and images of 100 x 50.
std::string coco_json(const std::string& annotations) {
  return R"({"info": {"images": [{"id": 9}], "year": 2017}, "annotations": [)" + annotations +
         R"(], "images": [{"id": 2, "file_name": "b.jpg", "width": 100, "height": 50},
                          {"file_name": "a.jpg", "height": 50, "width": 100, "id": 1}],
             "categories": [{"id": 90, "name": "brush"}, {"supercategory": {"name": "x"},
                             "id": 3, "name": "car"}]})";
}

TEST(CocoJson, BoxesFindTheirImagesAndClasses) {
  const CocoAnnotations read = parse(coco_json(
      R"({"id": 1, "image_id": 2, "category_id": 90, "bbox": [10, 5, 20.0, 1e1], "iscrowd": 0,
          "segmentation": [[1, 2, 3, 4]], "extra": {"bbox": [0, 0, 1, 1]}},
         {"id": 2, "image_id": 2, "category_id": 3, "bbox": [0, 0, 100, 50], "iscrowd": 1},
         {"id": 3, "image_id": 77, "category_id": 3, "bbox": [0, 0, 100, 50]})"));
  EXPECT_THAT(read.class_names, ElementsAre("car", "brush"));
  ASSERT_THAT(read.images, SizeIs(2));
  EXPECT_EQ(read.images[0], (AnnotatedImage{.file = "a.jpg"}));
  EXPECT_EQ(read.images[1].file, "b.jpg");
  ASSERT_THAT(read.images[1].boxes, SizeIs(1)) << "a crowd, and what belongs to no image";
  EXPECT_EQ(read.images[1].crowds, (std::vector<AnnotatedBox>{{0, {0, 0, 1, 1}}}));
  EXPECT_EQ(read.images[1].boxes[0].label, 1);
  EXPECT_NEAR(read.images[1].boxes[0].box.right, 0.3, 1e-6);
  EXPECT_NEAR(read.images[1].boxes[0].box.bottom, 0.3, 1e-6);
}

TEST(CocoJson, AreasAreThoseOfOutlinesWhereTheyAreTold) {
  const auto area = [](const std::string& text) {
    return parse(coco_json(R"({"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 10, 10])" +
                           text + "}"))
        .images[0]
        .boxes.at(0)
        .area;
  };
  EXPECT_EQ(area(""), std::nullopt);
  EXPECT_EQ(area(R"(, "area": 50)"), 50.0 / (100 * 50));
  EXPECT_EQ(area(R"(, "area": 12.5, "extra": {"area": 7})"), 12.5 / (100 * 50));
  EXPECT_EQ(area(R"(, "area": 0)"), 0.0);
  for (const char* const none : {"-1", "1e999", "\"50\"", "null", "[50]"})
    EXPECT_EQ(area(std::string(R"(, "area": )") + none), std::nullopt) << none;
}

TEST(CocoJson, D2AWrongAnnotationIsTheProblemOfItsImage) {
  const auto problem = [](const std::string& annotation) {
    return parse(coco_json(R"({"id": 5, "image_id": 1, )" + annotation + "}")).images[0].problem;
  };
  EXPECT_THAT(problem(R"("category_id": 4, "bbox": [0, 0, 1, 1])"),
              HasSubstr("annotation 5: there is no category 4"));
  EXPECT_THAT(problem(R"("category_id": 3, "bbox": [0, 0, 1])"), HasSubstr("bbox has 3 numbers"));
  EXPECT_THAT(problem(R"("category_id": 3)"), HasSubstr("bbox has 0 numbers"));
  EXPECT_THAT(problem(R"("category_id": 3, "bbox": [0, 0, 0, 4])"), HasSubstr("is empty"));
  EXPECT_THAT(problem(R"("category_id": 3, "bbox": [90, 0, 40, 4])"),
              HasSubstr("its bbox 90 0 40 4 (left, top, width, height; the image has 100 x 50 "
                        "pixels) is not inside"));
  EXPECT_THAT(problem(R"("category_id": 3, "bbox": [1e999, 0, 4, 4])"), HasSubstr("not inside"));
  EXPECT_THAT(problem(R"("category_id": 3, "bbox": [0, 0, 1, 1, 1, 1])"),
              HasSubstr("its bbox has more than 4 numbers"));
  EXPECT_THAT(problem(R"("category_id": 3, "more": {"bbox": 5})"), HasSubstr("bbox has 0 numbers"));
  for (const char* const odd : {"\"1\"", "0.5", "[1]"}) {
    EXPECT_THAT(
        problem(R"("category_id": 3, "bbox": [0, 0, 1, 1], "iscrowd": )" + std::string(odd)),
        HasSubstr("its iscrowd is neither 0 nor 1"));
  }
  EXPECT_EQ(problem(R"("category_id": 3, "bbox": [0, 0, 1, 1], "iscrowd": 0.0)"), "");
  const CocoAnnotations crowd = parse(coco_json(
      R"({"id": 5, "image_id": 1, "iscrowd": 1, "category_id": 4, "bbox": [0, 0, 1, 1]})"));
  EXPECT_EQ(crowd.images[0].problem, "");
  EXPECT_EQ(crowd.images[0].crowd_problem, "annotation 5: there is no category 4");
}

TEST(CocoJson, WholeNumbersMayHaveAPoint) {
  const CocoAnnotations read = parse(
      coco_json(R"({"id": 1.0, "image_id": 2.0, "category_id": 9e1, "bbox": [10, 5, 20, 10]})"));
  ASSERT_THAT(read.images, SizeIs(2));
  EXPECT_THAT(read.images[1].boxes, SizeIs(1));
  EXPECT_THAT(problem_of(coco_json(R"({"id": 1, "image_id": 2.5})")),
              HasSubstr("entry 1 of \"annotations\" has no whole number \"image_id\""));
}

TEST(CocoJson, NamesOfCategoriesAreOneLine) {
  const CocoAnnotations read = parse(
      R"({"images": [{"id": 1, "file_name": "a", "width": 1, "height": 1}],
          "categories": [{"id": 1, "name": "\u001b[31mcat\n"}]})");
  EXPECT_THAT(read.class_names, ElementsAre("?[31mcat?"));
}

TEST(CocoJson, D1WhatIsNotSuchAFileIsRefused) {
  EXPECT_THAT(problem_of(""), HasSubstr("file.json: at byte 0"));
  EXPECT_THAT(problem_of("{\"images\": [{\"id\": 1"), HasSubstr("file.json: at byte"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("it lists no images"));
  EXPECT_THAT(problem_of(R"({"images": {"a": {"id": 1}}})"), HasSubstr("it lists no images"));
  EXPECT_THAT(problem_of(R"({"images": [{"id": 1, "file_name": "a"}]})"),
              HasSubstr("image 1 lacks file_name, width or height"));
  EXPECT_THAT(problem_of(R"({"images": [{"id": "1"}]})"), HasSubstr("has no whole number \"id\""));
  EXPECT_THAT(problem_of(R"({"images": [{"id": true}]})"), HasSubstr("has no whole number \"id\""));
  EXPECT_THAT(problem_of(coco_json(R"({"id": 1})")), HasSubstr("has no whole number \"image_id\""));
  EXPECT_THAT(
      problem_of(R"({"images": [{"id": 4, "file_name": "a\u0000b", "width": 1, "height": 1}]})"),
      HasSubstr("the file_name of image 4 holds a zero byte"));
  EXPECT_THAT(
      problem_of(R"({"images": [{"id": 4, "file_name": "a", "width": 1e9, "height": 480}]})"),
      HasSubstr("image 4 has 1e+09 x 480 pixels, more than an image may have"));
  EXPECT_THAT(problem_of(coco_json("") + "\n {\"more\": 1}"),
              AllOf(HasSubstr("file.json: at byte"), HasSubstr("something follows the JSON")));
  EXPECT_EQ(problem_of(coco_json("") + "\n \n"), "nothing");
  const std::string image = R"({"id": 1, "file_name": "a", "width": 1, "height": 1})";
  EXPECT_THAT(problem_of(R"({"images": [)" + image + "," + image + "]}"),
              HasSubstr("two images have the id 1"));
  EXPECT_THAT(problem_of(R"({"images": [)" + image + "]}"), HasSubstr("it lists no categories"));
  EXPECT_THAT(problem_of(std::string(1000, '[')), HasSubstr("file.json: at byte"));
}

TEST(CocoJson, TheSameInPiecesOfAnySize) {
  // A piece that fills the buffer is what a large file gives: made by spaces between the tokens.
  std::string text =
      coco_json(R"({"id": 1, "image_id": 2, "category_id": 90, "bbox": [10, 5, 20, 10]})");
  const CocoAnnotations whole = parse(text);
  text.insert(1, std::string((1 << 20) - 40, ' '));
  for (const std::size_t shift : {0, 1, 7, 30, 33}) {
    const CocoAnnotations read = parse(std::string(shift, ' ') + text, std::size_t{1} << 20);
    EXPECT_EQ(read.images, whole.images) << shift;
    EXPECT_EQ(read.class_names, whole.class_names) << shift;
  }
}

TEST(CocoLayout, LabelsLieBesideTheImages) {
  EXPECT_EQ(labels_of("/set/images/train2017"), "/set/labels/train2017");
  EXPECT_EQ(labels_of("/images/set/train/images"), "/images/set/train/labels");
  EXPECT_EQ(labels_of("/set/photos"), "/set/photos");
  EXPECT_EQ(labels_of("images/train"), "labels/train");
}

class DetectionSets : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const half : {"train", "val"}) {
      for (int i = 0; i < 4; ++i) {
        const std::string name = std::to_string(i);
        put(fs::path("images") / half / (name + ".png"), picture(10 + i));
        if (i > 0) label(fs::path(half) / (name + ".txt"), "1 0.5 0.5 0.5 0.25\n0 0.5 0.5 1 1\n");
      }
    }
  }
  [[nodiscard]] const fs::path& root() const { return scratch_.path(); }
  [[nodiscard]] static std::string picture(int height) {
    Image image;
    image.reshape(3, {height, 20});
    const std::vector<std::uint8_t> bytes = encode_png(image);
    return {bytes.begin(), bytes.end()};
  }
  void put(const fs::path& path, const std::string& text) const {
    fs::create_directories((root() / path).parent_path());
    scratch_.write(path.string(), text);
  }
  void label(const fs::path& path, const std::string& text) const { put("labels" / path, text); }
  [[nodiscard]] Sources load(const TextMap& args = {}) const {
    DataRequest request{.name = "coco", .root = root(), .args = Args("data.args", args)};
    request.image_size = 16;
    request.max_bad = max_bad_;
    return load_detection_set(request);
  }
  [[nodiscard]] std::string problem(const TextMap& args = {}) const {
    try {
      (void)load(args);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing";
  }
  [[nodiscard]] static std::vector<float> rows(const Source& source, std::int64_t index) {
    Sample sample;
    source.read(index, sample);
    const Array& target = sample.targets.at(0);
    EXPECT_EQ(target.shape.at(1), kBoxRow);
    return numbers<float>(target);
  }
  [[nodiscard]] static std::vector<float> truths(const Source& source, std::int64_t index) {
    Sample sample;
    source.read(index, sample);
    return numbers<float>(sample.targets.at(kGroundTruthRows));
  }
  template <typename Number>
  [[nodiscard]] static std::vector<Number> numbers(const Array& array) {
    std::vector<Number> numbers(array.bytes.size() / sizeof(Number));
    if (!numbers.empty()) std::memcpy(numbers.data(), array.bytes.data(), array.bytes.size());
    return numbers;
  }

  Scratch scratch_;
  double max_bad_ = 0.01;
};

TEST_F(DetectionSets, BoxesAreInPixels) {
  const Sources sources = load();
  const DataFacts& facts = sources.train->facts();
  EXPECT_EQ(facts.count, 4);
  EXPECT_EQ(facts.boxes, 6);
  EXPECT_EQ(facts.classes, 2);
  EXPECT_EQ(facts.shape, (std::vector<std::int64_t>{3, 16, 16}));
  EXPECT_THAT(rows(*sources.train, 0), IsEmpty()) << "no label file: nothing is in it";
  EXPECT_THAT(rows(*sources.train, 2), ElementsAre(1, 5, 4.5, 15, 7.5, 0, 0, 0, 20, 12));
}

TEST_F(DetectionSets, NamesComeFromAFileOfLinesOrOfYaml) {
  put("names.txt", "cat\r\ndog\nowl\n\n");
  EXPECT_THAT(load().train->facts().class_names, ElementsAre("cat", "dog", "owl"));
  put("mine.yaml", "path: ..\nnames:\n  0: cat\n  1: dog\n");
  EXPECT_THAT(load({{"names", "mine.yaml"}}).test->facts().class_names, ElementsAre("cat", "dog"));
  put("mine.yaml", "nc: 2\nnames: [a, b]\n");
  EXPECT_THAT(load({{"names", "mine.yaml"}}).test->facts().class_names, ElementsAre("a", "b"));
  put("mine.yaml", "names: {1: cat}\n");
  EXPECT_THAT(problem({{"names", "mine.yaml"}}),
              HasSubstr("mine.yaml:1:9: expected the name of class 0"));
  put("mine.yaml", "names: [cat, [dog]]\n");
  EXPECT_THAT(problem({{"names", "mine.yaml"}}),
              HasSubstr("mine.yaml:1:14: expected the name of class 1"));
  put("mine.yaml", "names:\n  0: cat\n  1:\n");
  EXPECT_THAT(problem({{"names", "mine.yaml"}}),
              HasSubstr("mine.yaml:3:3: expected the name of class 1"));
  put("mine.yaml", "nc: 3\n");
  EXPECT_THAT(problem({{"names", "mine.yaml"}}), HasSubstr("mine.yaml has no `names:"));
  EXPECT_THAT(
      problem({{"names", "none.txt"}}),
      AllOf(HasSubstr("the names of the classes"), HasSubstr("none.txt: there is no such file")));
}

TEST_F(DetectionSets, D2WrongLabelsAreFoundBeforeTraining) {
  put("names.txt", "cat\ndog\n");
  label("train/2.txt", "\n0 0.5 0.5 0.5 0.5\r\n \n2 0.5 0.5 0.5 0.5\n");
  label("train/3.txt", "1 0.5 0.5 50 60\n");
  EXPECT_THAT(
      problem(),
      AllOf(
          HasSubstr("labels/train: the labels of 2 of 4 images are wrong, more than data.max_bad"),
          HasSubstr("labels/train/2.txt: line 4: class 2, and the classes are 0 to 1"),
          HasSubstr("labels/train/3.txt: line 1: the box 0.5 0.5 50 60 is not inside")));
  max_bad_ = 0.5;
  const Sources sources = load();
  EXPECT_THAT(rows(*sources.train, 1), SizeIs(10));
  EXPECT_THROW((void)rows(*sources.train, 2), BadSample);
  EXPECT_THROW((void)rows(*sources.train, 3), BadSample);
}

TEST_F(DetectionSets, D2NamesThatCannotBeCountedAreRefused) {
  put("names.txt",
      "\xEF\xBB\xBF"
      "cat\ndog\n");
  EXPECT_THAT(load().train->facts().class_names, ElementsAre("cat", "dog")) << "a byte order mark";
  put("names.txt", "cat\n\ndog\n");
  EXPECT_THAT(problem(), HasSubstr("names.txt:2: an empty line among the names"));
  put("names.txt", "\n");
  EXPECT_THAT(problem(), HasSubstr("names.txt is empty"));
  EXPECT_THAT(problem({{"names", "images"}}),
              AllOf(HasSubstr("cannot read the names of the classes, "),
                    HasSubstr("it is not a regular file. Give a file with a name in each line")));
}

TEST_F(DetectionSets, AByteOrderMarkIsNoPartOfALabel) {
  label("train/2.txt",
        "\xEF\xBB\xBF"
        "1 0.5 0.5 0.5 0.25\r\n");
  EXPECT_THAT(rows(*load().train, 2), ElementsAre(1, 5, 4.5, 15, 7.5));
}

TEST_F(DetectionSets, D2ASetWithoutObjectsIsRefused) {
  for (int i = 0; i < 4; ++i)
    label("val/" + std::to_string(i) + ".txt", "");
  EXPECT_THAT(problem(), HasSubstr("labels/val: there is no object in any of the 4 images"));
}

TEST_F(DetectionSets, D3ALabelFileThatLeadsNowhereIsBad) {
  const fs::path labels = root() / "labels" / "train";
  fs::remove(labels / "1.txt");
  fs::create_symlink("/nowhere/1.txt", labels / "1.txt");
  EXPECT_THAT(problem(), HasSubstr("labels/train/1.txt: No such file"));
  fs::remove(labels / "1.txt");
  fs::create_symlink("1.txt", labels / "1.txt");
  EXPECT_THAT(problem(), HasSubstr("labels/train/1.txt: Too many levels"));
  for (int i = 0; i < 4; ++i) {
    fs::remove(labels / (std::to_string(i) + ".txt"));
    ASSERT_EQ(::mkfifo((labels / (std::to_string(i) + ".txt")).c_str(), 0600), 0);
  }
  EXPECT_THAT(problem(), HasSubstr("labels/train/0.txt: it is not a regular file"));
}

TEST_F(DetectionSets, D2NamesOfFilesAreOneLineEach) {
  const std::string name = "a\nb\x1b[2J";
  put(fs::path("images/train") / (name + ".png"), picture(9));
  label(fs::path("train") / (name + ".txt"), "9 9\n");
  EXPECT_THAT(problem(), HasSubstr("labels/train/a?b?[2J.txt: line 1: 1 numbers behind"));
  fs::remove_all(root() / "images" / "train");
  put(fs::path("images/train") / (name + "c.png"), picture(9));
  EXPECT_THAT(
      problem(),
      HasSubstr("for the first image: " + (root() / "labels").string() + "/train/a?b?[2Jc.txt"));
}

TEST_F(DetectionSets, D2OfManyWrongLabelsTheFirstTwentyAreListed) {
  for (int i = 0; i < 30; ++i) {
    put("images/train/" + std::to_string(i) + ".png", picture(9));
    label("train/" + std::to_string(i) + ".txt", "x\n");
  }
  const std::string text = problem();
  EXPECT_EQ(std::ranges::count(text, '\n'), 21);
  EXPECT_THAT(text, AllOf(HasSubstr("of 30 of 30 images"), HasSubstr("\n  and 10 more")));
}

TEST_F(DetectionSets, D3ALabelFileThatIsNoFileIsBad) {
  fs::remove(root() / "labels" / "train" / "1.txt");
  fs::create_directory(root() / "labels" / "train" / "1.txt");
  EXPECT_THAT(problem(), HasSubstr("labels/train/1.txt"));
}

/// Of the images of CocoSets, which have the ids 50, 49, ...
std::string json_of_sets(const std::string& annotations) {
  std::string images;
  for (int i = 0; i < 4; ++i) {
    images += (i > 0 ? "," : "") + std::string("{\"id\": ") + std::to_string(50 - i) +
              ", \"file_name\": \"" + std::to_string(i) +
              ".png\", \"width\": 20, \"height\": " + std::to_string(10 + i) + "}";
  }
  return "{\"images\": [" + images + "], \"annotations\": [" + annotations +
         R"(], "categories": [{"id": 4, "name": "cat"}, {"id": 6, "name": "dog"}]})";
}

TEST_F(DetectionSets, A11_ANameThatLeadsOutOfTheRootIsRefused) {
  const std::string box = R"({"id": 1, "image_id": 48, "category_id": 6, "bbox": [5, 4.5, 10, 3]})";
  const auto put_named = [&](const std::string& name) {
    std::string json = json_of_sets(box);
    json.replace(json.find("3.png"), 5, name);
    put("annotations/instances_train.json", json);
    put("annotations/instances_val.json", json);
  };
  const TextMap args{{"train", "annotations/instances_train.json"}};
  const std::string outside = root().string() + "-beside.png";
  for (const std::string& name : {std::string("../../../../../etc/passwd"),
                                  std::string("/etc/passwd"),
                                  "../../../" + fs::path(outside).filename().string(),
                                  outside}) {
    put_named(name);
    EXPECT_THAT(problem(args),
                AllOf(HasSubstr("instances_train.json: the file_name " + name),
                      HasSubstr("leads out of data.root")));
  }
  for (const std::string& name : {std::string("../train/3.png"),
                                  (root() / "images/train/3.png").string(),
                                  std::string("a..png")}) {
    put_named(name);
    EXPECT_EQ(load(args).train->facts().count, 4) << name;
  }
}

TEST_F(DetectionSets, CrowdsAndOutlinesAreThereToJudgeByAndNotToTrainOn) {
  const std::string box = R"({"id": 1, "image_id": 48, "category_id": 6, "bbox": [5, 4.5, 10, 3]})";
  const std::string both = R"({"id": 1, "image_id": 48, "category_id": 6, "bbox": [5, 4.5, 10, 3],
                               "area": 21},
                              {"id": 2, "image_id": 48, "category_id": 4, "bbox": [0, 0, 20, 6],
                               "iscrowd": 1})";
  put("annotations/instances_train.json", json_of_sets(both));
  put("annotations/instances_val.json", json_of_sets(both));
  const TextMap args{{"train", "annotations/instances_train.json"}};
  const Sources sources = load(args);
  EXPECT_EQ(sources.train->facts().boxes, 1);
  EXPECT_THAT(sources.test->boxes(2), SizeIs(1));
  Sample sample;
  sources.train->read(2, sample);
  EXPECT_THAT(sample.targets, SizeIs(1));
  EXPECT_THAT(rows(*sources.train, 2), ElementsAre(1, 5, 4.5, 15, 7.5));
  EXPECT_THAT(rows(*sources.test, 2), ElementsAre(1, 5, 4.5, 15, 7.5));
  EXPECT_THAT(truths(*sources.test, 2),
              ElementsAre(1, 5, 4.5, 15, 7.5, 21, 0, 0, 0, 0, 20, 6, 120, 1));
  EXPECT_THAT(truths(*sources.test, 0), IsEmpty());
  sources.test->read(2, sample);
  ASSERT_THAT(sample.targets, SizeIs(kGroundTruthTargets));
  EXPECT_EQ(numbers<std::int64_t>(sample.targets[kFileHeight]), std::vector<std::int64_t>{12});
  EXPECT_EQ(numbers<std::int64_t>(sample.targets[kFileWidth]), std::vector<std::int64_t>{20});
  // Both are another test set than without them; a training set is the same.
  put("annotations/instances_val.json", json_of_sets(box));
  const Sources plain = load(args);
  EXPECT_NE(plain.test->facts().digest, sources.test->facts().digest);
  EXPECT_EQ(plain.test->facts().digest, sources.train->facts().digest);
}

TEST_F(DetectionSets, D2CrowdsAloneAreNoSet) {
  const std::string crowd =
      R"({"id": 1, "image_id": 48, "category_id": 6, "iscrowd": 1, "bbox": [5, 4.5, 10, 3]})";
  put("annotations/instances_train.json", json_of_sets(crowd));
  put("annotations/instances_val.json", json_of_sets(crowd));
  EXPECT_THAT(problem({{"train", "annotations/instances_train.json"}}),
              HasSubstr("instances_train.json: all of its objects are crowds (iscrowd: 1)"));
}

TEST_F(DetectionSets, D2AWrongCrowdIsWrongForAnEvaluationAlone) {
  const std::string good =
      R"({"id": 1, "image_id": 48, "category_id": 6, "bbox": [5, 4.5, 10, 3]})";
  const std::string wrong =
      good + R"(, {"id": 2, "image_id": 48, "category_id": 6, "iscrowd": 1, "bbox": []})";
  const TextMap args{{"train", "annotations/instances_train.json"}};
  put("annotations/instances_train.json", json_of_sets(wrong));
  put("annotations/instances_val.json", json_of_sets(good));
  EXPECT_THAT(rows(*load(args).train, 2), ElementsAre(1, 5, 4.5, 15, 7.5));
  put("annotations/instances_val.json", json_of_sets(wrong));
  EXPECT_THAT(problem(args),
              AllOf(HasSubstr("instances_val.json: annotation 2: its bbox has 0 numbers"),
                    Not(HasSubstr("instances_train.json: annotation"))));
}

TEST_F(DetectionSets, SizesOfImagesAreKnownBeforeTheyAreRead) {
  put("images/train/2.png", "no image");
  put("images/train/3.jpg", picture(7) + std::string(100'000, ' '));
  const Sources yolo = load();
  EXPECT_EQ(yolo.train->image_size(0), (ImageSize{10, 20}));
  EXPECT_EQ(yolo.train->image_size(2), std::nullopt);
  EXPECT_EQ(yolo.train->image_size(3), (ImageSize{7, 20})) << "by its content";
  const std::string box = R"({"id": 1, "image_id": 48, "category_id": 6, "bbox": [5, 4.5, 10, 3]})";
  put("annotations/instances_train.json", json_of_sets(box));
  const Sources json = load(
      {{"train", "annotations/instances_train.json"}, {"val", "annotations/instances_train.json"}});
  EXPECT_EQ(json.train->image_size(0), (ImageSize{10, 20})) << "not as the JSON may tell it";
  EXPECT_EQ(json.train->image_size(2), std::nullopt);
}

TEST_F(DetectionSets, YoloAndJsonAreTheSameSet) {
  const auto json = json_of_sets;
  const std::string boxes =
      R"({"id": 1, "image_id": 48, "category_id": 6, "bbox": [5, 4.5, 10, 3]},
         {"id": 2, "image_id": 48, "category_id": 4, "bbox": [0, 0, 20, 12]})";
  const Sources yolo = load();
  put("annotations/instances_train.json", json(boxes));
  put("annotations/instances_val.json", json(boxes));
  const Sources other = load({{"train", "annotations/instances_train.json"}});
  EXPECT_THAT(other.train->facts().class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(rows(*other.train, 2), rows(*yolo.train, 2));
  EXPECT_THAT(problem({{"train", "images/train"}, {"val", "annotations/instances_val.json"}}),
              HasSubstr("two folders with label files, or two .json files"));
  fs::remove_all(root() / "labels");
  EXPECT_EQ(rows(*load().train, 2), rows(*other.train, 2)) << "without labels it is the JSON";
  fs::remove_all(root() / "images");
  EXPECT_THAT(problem(), HasSubstr("the first of its images, 0.png, is in none of"));
}

TEST_F(DetectionSets, MissingFoldersAndLabelsAreNamed) {
  EXPECT_THAT(problem({{"val", "images/none/"}}), HasSubstr("data.args.val: there is no "));
  fs::remove_all(root() / "images" / "val");
  EXPECT_THAT(
      problem(),
      AllOf(HasSubstr("nothing to evaluate with"), HasSubstr("data.args.val=images/train")));
  EXPECT_EQ(load({{"val", "images/train/"}}).test->facts().count, 4);
  fs::remove_all(root() / "labels");
  EXPECT_THAT(problem(), HasSubstr("there is none of images/train2017"));
  EXPECT_THAT(problem({{"train", "images/train"}}), AllOf(HasSubstr("nothing to evaluate")));
  EXPECT_THAT(problem({{"train", "images/train"}, {"val", "images/train"}}),
              AllOf(HasSubstr("none of the 4 images in "), HasSubstr("labels/train/0.txt")));
}

TEST_F(DetectionSets, PathThatIsNotAnImageFolderIsRefused) {
  put("train.txt", "images/train/0.png\n");
  EXPECT_THAT(problem({{"train", "train.txt"}}), HasSubstr("data.args.train: there is no folder "));
  EXPECT_THAT(problem({{"train", "none.json"}}), HasSubstr("data.args.train: there is no file "));
  fs::create_directory(root() / "a.json");
  EXPECT_THAT(problem({{"train", "a.json"}, {"val", "a.json"}}),
              AllOf(HasSubstr("cannot read COCO's annotations"), HasSubstr("not a regular file")));
}

TEST(CocoLayout, MostOfTheImagesDecideWhereTheyLie) {
  const Scratch scratch;
  fs::create_directories(scratch.path() / "annotations");
  fs::create_directories(scratch.path() / "images" / "train");
  for (const char* const name : {"images/train/b.png", "images/train/c.png", "a.png"})
    scratch.write(name, "");
  const std::vector<AnnotatedImage> images{{.file = "a.png"}, {.file = "b.png"}, {.file = "c.png"}};
  const fs::path json = scratch.path() / "annotations" / "instances_train.json";
  EXPECT_EQ(images_of(json, images), scratch.path() / "images" / "train");
  EXPECT_THROW((void)images_of(json, std::vector<AnnotatedImage>{{.file = "d.png"}}), UsageError);
}

TEST_F(DetectionSets, D6WrongLabelsAreTheSameWhereverTheyLie) {
  const std::vector<AnnotatedImage> here{{.file = "a", .problem = "/here/a.txt: wrong"}};
  std::vector<AnnotatedImage> there{{.file = "a", .problem = "/there/a.txt: wrong"}};
  EXPECT_EQ(digest(here), digest(there));
  there[0].problem.clear();
  EXPECT_NE(digest(here), digest(there));
}

TEST_F(DetectionSets, D6OtherLabelsAreAnotherSet) {
  const std::string before = load().train->facts().digest;
  EXPECT_EQ(load().train->facts().digest, before);
  label("train/2.txt", "1 0.5 0.5 0.5 0.26\n0 0.5 0.5 1 1\n");
  EXPECT_NE(load().train->facts().digest, before);
}

}  // namespace
}  // namespace ddp::worker
