// Images in files, one folder per class: ROOT/train/cat/1.jpg. Files are read when they are needed.
#pragma once

#include "worker/data/sets/image_list.h"
#include "worker/data/sets/image_set.h"
#include "worker/data/source.h"
#include "worker/image/decode.h"

namespace ddp::worker {

class ImageFolder : public Source {
 public:
  /// `facts` are those of this set, or of the one that a model was trained on. Samples have any
  /// size, and are fitted to facts.shape later. With `at_least` above 0 an image may be decoded
  /// smaller than its file, but not below that side.
  ImageFolder(ImageList list, DataFacts facts, int at_least);

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  /// Errors: BadSample; read_part() also those of the request, whose background is ours.
  void read(std::int64_t index, Sample& into) const override;
  [[nodiscard]] bool read_part(std::int64_t index,
                               const DecodeRequest& request,
                               Sample& into) const override;
  [[nodiscard]] std::optional<std::int64_t> label(std::int64_t index) const override;

 private:
  ImageList list_;
  DataFacts facts_;
  DecodeRequest request_;
};

/// ROOT/train and ROOT/val (or test, valid, validation), with the same classes. Errors: UsageError.
Sources load_image_folder(const DataRequest& request);

}  // namespace ddp::worker
