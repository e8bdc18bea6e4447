// Shows average precision and non-maximum suppression to the Python program beside it: one verb,
// then its arguments. Files of numbers are rows of text.
#include <ATen/core/Tensor.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/interop/verbs.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/save/format/safetensors.h"
#include "worker/task/precision_curve.h"
#include "worker/task/suppression.h"

namespace ddp::worker {
namespace {

using test::Arguments;

std::vector<std::vector<double>> read_rows(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UsageError(path + ": cannot be read");
  std::vector<std::vector<double>> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream text(line);
    std::vector<double>& row = rows.emplace_back();
    for (double number = 0; text >> number;)
      row.push_back(number);
  }
  return rows;
}

Box box_of(const std::vector<double>& row, std::size_t first) {
  const auto side = [&](std::size_t i) { return static_cast<float>(row.at(first + i)); };
  return {side(0), side(1), side(2), side(3)};
}

/// By image.
struct Scenes {
  std::map<std::int64_t, std::vector<GroundTruth>> truths;
  std::map<std::int64_t, std::vector<Detection>> detections;
};

Scenes read_scenes(const std::string& truths, const std::string& detections) {
  Scenes scenes;
  for (const std::vector<double>& row : read_rows(truths))
    scenes.truths[static_cast<std::int64_t>(row.at(0))].push_back(
        {static_cast<int>(row.at(1)), box_of(row, 2), row.at(6), row.at(7) != 0});
  for (const std::vector<double>& row : read_rows(detections))
    scenes.detections[static_cast<std::int64_t>(row.at(0))].push_back(
        {box_of(row, 2), static_cast<float>(row.at(6)), static_cast<int>(row.at(1))});
  return scenes;
}

DetectionQuality measure(Scenes& scenes, std::int64_t images, int classes) {
  ImageMatches all;
  for (std::int64_t image = 0; image < images; ++image) {
    const ImageMatches one =
        match_boxes(image, scenes.truths[image], scenes.detections[image], classes);
    all.detections.insert(all.detections.end(), one.detections.begin(), one.detections.end());
    all.truths.insert(all.truths.end(), one.truths.begin(), one.truths.end());
    all.confused.insert(all.confused.end(), one.confused.begin(), one.confused.end());
  }
  return measure_detections(std::move(all.detections), all.truths, all.confused, classes);
}

void print(const std::string& name, double value) {
  std::printf("%s %.17g\n", name.c_str(), value);
}

// measure TRUTHS DETECTIONS IMAGES CLASSES: rows are "image class left top right bottom area crowd"
// and "image class left top right bottom score". Prints a name and a number a line.
void measure_files(const Arguments& arguments) {
  Scenes scenes = read_scenes(arguments.at(0), arguments.at(1));
  const int classes = std::stoi(arguments.at(3));
  const DetectionQuality quality = measure(scenes, std::stoll(arguments.at(2)), classes);
  print("AP50", quality.mean_ap_at(kIou50));
  print("AP75", quality.mean_ap_at(kIou75));
  const std::vector<std::string> ranges{"AP50:95", "AP_small", "AP_medium", "AP_large"};
  for (std::size_t i = 0; i < ranges.size(); ++i)
    print(ranges[i], quality.mean_ap(static_cast<AreaRange>(i)));
  print("precision", quality.precision);
  print("recall", quality.recall);
  print("F1", quality.f1);
  print("confidence", quality.confidence);
  for (std::size_t label = 0; label < quality.classes.size(); ++label) {
    const ClassQuality& one = quality.classes[label];
    const std::string name = "class/" + std::to_string(label) + "/";
    print(name + "truths", static_cast<double>(one.truths[0]));
    print(name + "images", static_cast<double>(one.images));
    print(name + "AP50:95", one.mean_ap());
  }
  for (std::size_t i = 0; i < quality.confusion.size(); ++i)
    print("confusion/" + std::to_string(i), static_cast<double>(quality.confusion[i]));
}

// suppress IN OUT CONFIDENCE IOU MOST_CANDIDATES MOST_KEPT [multi-label] [class-agnostic]: IN holds
// "boxes" and "scores"; OUT gets "0", "1", ...: the detections of each image.
void suppress_file(const Arguments& arguments) {
  const TensorFile file = read_safetensors(arguments.at(0));
  std::vector<NamedTensor> input;
  for (const std::string name : {"boxes", "scores"})
    input.push_back({name, torch::empty(file.find(name)->shape)});
  copy_from(file, arguments.at(0), input);
  SuppressionOptions options;
  options.confidence = std::stod(arguments.at(2));
  options.iou = std::stod(arguments.at(3));
  options.max_candidates = std::stoll(arguments.at(4));
  options.max_kept = std::stoll(arguments.at(5));
  for (std::size_t i = 6; i < arguments.size(); ++i)
    (arguments[i] == "multi-label" ? options.is_multi_label : options.is_class_agnostic) = true;
  const Suppressed result = suppress(input[0].tensor, input[1].tensor, options);
  std::vector<NamedTensor> out;
  for (std::size_t i = 0; i < result.detections.size(); ++i)
    out.push_back({std::to_string(i), result.detections[i]});
  write_safetensors(arguments.at(1), view(out));
}

}  // namespace

int run(int argc, char** argv) {
  return test::run_verb(
      "detection_tool", {{"measure", measure_files}, {"suppress", suppress_file}}, argc, argv);
}

}  // namespace ddp::worker

int main(int argc, char** argv) {
  return ddp::worker::run(argc, argv);
}
