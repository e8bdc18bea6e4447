// The objects in each image, printed, and drawn and written where somebody wants files.
#pragma once

#include <memory>
#include <vector>

#include "worker/data/sets/unlabelled_images.h"
#include "worker/plan/options.h"
#include "worker/train/verbs/answers.h"

namespace ddp::worker {

/// For batches of UnlabelledImages of `images`, fitted by letterbox(); `facts` are those that the
/// model was trained on. With options.output its directories are made. Errors: those of
/// ObjectFiles.
std::unique_ptr<Answers> answer_by_objects(std::vector<NamedImage> images,
                                           const DataFacts& facts,
                                           const Options& options);

}  // namespace ddp::worker
