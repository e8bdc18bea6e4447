#include "worker/train/verbs/object_printer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <boost/json.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/text/json_text.h"
#include "common/text/one_line.h"
#include "common/text/utf8.h"
#include "worker/data/detections_text.h"
#include "worker/data/sets/class_names.h"
#include "worker/image/letterbox.h"
#include "worker/task/suppression.h"
#include "worker/train/verbs/object_files.h"

namespace ddp::worker {
namespace {

SuppressionOptions suppression_of(const Options& options) {
  SuppressionOptions suppression;
  suppression.confidence = options.confidence.value_or(suppression.confidence);
  suppression.iou = options.iou.value_or(suppression.iou);
  if (options.top) suppression.max_kept = *options.top;
  return suppression;
}

/// The objects of `rows` [n, 6] of suppress(), placed in the image. Drops those that lie in the
/// border alone.
std::vector<FoundObject> objects_in(const at::Tensor& rows, const Letterbox& letterbox) {
  std::vector<FoundObject> objects;
  const auto row = rows.accessor<float, 2>();
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const Box found{row[i][0], row[i][1], row[i][2], row[i][3]};
    const std::optional<Box> box = box_in_image(found, letterbox);
    if (box) objects.push_back({static_cast<std::size_t>(row[i][5]), row[i][4], *box});
  }
  return objects;
}

class ObjectPrinter : public PredictionPrinter {
 public:
  ObjectPrinter(std::vector<NamedImage> images, const DataFacts& facts, const Options& options)
      : images_(std::move(images)),
        side_(static_cast<int>(facts.shape.at(1))),
        suppression_(suppression_of(options)),
        is_json_(options.is_json) {
    for (int i = 0; i < facts.classes; ++i)
      class_names_.push_back(class_name(static_cast<std::size_t>(i), facts));
    if (options.output) files_.emplace(*options.output, images_, class_names_, facts.background);
  }

  std::size_t print(const Batch& batch, const Outputs& outputs) override {
    const auto classes = static_cast<std::int64_t>(class_names_.size());
    if (outputs.size() < 2 || outputs[1].dim() != 3 || outputs[1].size(2) != classes)
      throw UsageError(
          "predict: this checkpoint's task gives no boxes with scores of its classes.");
    const Suppressed found = suppress(outputs[0], outputs[1], suppression_);
    const at::Tensor heights = batch.targets.at(0).values.cpu();
    const at::Tensor widths = batch.targets.at(1).values.cpu();
    std::size_t unread = 0;
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const ImageSize size{heights[i].item<int>(), widths[i].item<int>()};
      const auto index = static_cast<std::size_t>(batch.indices[static_cast<std::size_t>(i)]);
      const std::vector<FoundObject> objects =
          objects_in(found.detections.at(static_cast<std::size_t>(i)), fit_letterbox(size, side_));
      print(images_.at(index).path.string(), objects);
      if (!files_) continue;
      try {
        files_->put(index, objects);
      } catch (const BadSample& bad) {
        std::cerr << "ddp-worker: " << one_line(bad.what(), kMaxLineBytes) << std::endl;
        ++unread;
      }
    }
    std::cout << std::flush;
    return unread;
  }

  void finish() override {
    if (files_) files_->finish();
  }

 private:
  void print(const std::string& image, std::span<const FoundObject> objects) const {
    if (is_json_) {
      std::cout << fmt::format(R"({{"image":{},"objects":{}}})",
                               boost::json::serialize(boost::json::value(json_utf8(image))),
                               to_json(objects, class_names_))
                << '\n';
    } else {
      // Neither part is cut: there may be hundreds of objects.
      const std::string line = image + "  " + to_line(objects, class_names_);
      std::cout << one_line(line, line.size() * kReplacement.size()) << '\n';
    }
  }

  std::vector<NamedImage> images_;
  std::vector<std::string> class_names_;
  int side_;
  SuppressionOptions suppression_;
  bool is_json_;
  std::optional<ObjectFiles> files_;
};

}  // namespace

std::unique_ptr<PredictionPrinter> make_object_printer(std::vector<NamedImage> images,
                                                       const DataFacts& facts,
                                                       const Options& options) {
  return std::make_unique<ObjectPrinter>(std::move(images), facts, options);
}

}  // namespace ddp::worker
