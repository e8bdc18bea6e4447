// For predict: prints the objects in each image, and writes them to files if options.output is set.
#pragma once

#include <memory>
#include <vector>

#include "worker/data/sets/unlabelled_images.h"
#include "worker/plan/options.h"
#include "worker/train/verbs/prediction_printer.h"

namespace ddp::worker {

/// For batches of UnlabelledImages with `images`, fitted by letterbox(); `facts` are those of the
/// data that the model was trained on. Makes the directories below options.output. Errors: those of
/// ObjectFiles.
std::unique_ptr<PredictionPrinter> make_object_printer(std::vector<NamedImage> images,
                                                       const DataFacts& facts,
                                                       const Options& options);

}  // namespace ddp::worker
