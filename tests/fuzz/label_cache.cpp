// Any bytes as a cache of labels, also behind the checksum that belongs to them: it is not used, or
// it holds what a reader of label files gives, and comes out the same when it is written again.
#include "worker/data/sets/label_cache.h"

#include <span>

#include "tests/fuzz/fuzz.h"
#include "worker/data/format/yolo_labels.h"
#include "worker/plan/digest.h"

namespace {

using ddp::worker::AnnotatedBox;
using ddp::worker::CachedFolder;
using ddp::worker::CachedLabels;

void require_labels(const CachedLabels& labels) {
  ddp::fuzz::require(!labels.name.empty(), "every file has a name");
  ddp::fuzz::require(labels.problem.empty() || labels.problem.starts_with("line "),
                     "the line is named");
  ddp::fuzz::require(labels.problem.find_first_of("\n\r\x1B") == std::string::npos,
                     "a problem is one line");
  for (const auto& [label, box, area_of_outline] : labels.boxes) {
    ddp::fuzz::require(!area_of_outline, "YOLO has no outlines");
    ddp::fuzz::require(label >= 0 && label < ddp::worker::kMaxClasses, "the class is a number");
    ddp::fuzz::require(
        area(box) > 0 && box.left >= 0 && box.top >= 0 && box.right <= 1 && box.bottom <= 1,
        "the box is inside of the image");
  }
}

void decode(const std::string& bytes) {
  CachedFolder folder;
  const std::string problem = ddp::worker::decode_label_cache(bytes, folder);
  ddp::fuzz::require(problem.empty() || folder.empty(), "what is not used leaves nothing");
  if (!problem.empty()) return;
  for (std::size_t i = 0; i < folder.size(); ++i) {
    require_labels(folder[i]);
    ddp::fuzz::require(i == 0 || folder[i - 1].name < folder[i].name, "names are in order");
  }
  ddp::fuzz::require(ddp::worker::encode_label_cache(folder) == bytes, "it comes out the same");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes = ddp::fuzz::to_string(data, size);
  decode(bytes);
  decode("ddp-labels 1 " + ddp::worker::digest(std::as_bytes(std::span(bytes))) + "\n" + bytes);
  return 0;
}
