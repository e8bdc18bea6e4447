// A picture of a run for people, before it is drawn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// A thread beside training draws it later, or never: when a newer one of the same name came first.
/// So `draw` must own all that it needs, on the host.
struct Picture {
  std::string name;  // of the file in the run directory, without its ending: "PR_curve"
  std::function<Image()> draw;
};

using Pictures = std::vector<Picture>;

}  // namespace ddp::worker
