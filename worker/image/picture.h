// A picture for the run directory, before it is drawn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// A background thread draws it later, or never, if a newer one of the same name comes first. So
/// `draw` must own all that it needs, on the host.
struct Picture {
  std::string name;  // of the file in the run directory, without extension: "PR_curve"
  std::function<Image()> draw;
};

using Pictures = std::vector<Picture>;

}  // namespace ddp::worker
