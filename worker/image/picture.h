// A picture of a run for people, before it is drawn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/image/image.h"

namespace ddp::worker {

/// It is drawn later, by a thread beside training, or never: when a newer one of the same name came
/// first. So `draw` holds all that it needs itself, on the host.
struct Picture {
  std::string name;  // of its file in the run directory, without the ending: "PR_curve"
  std::function<Image()> draw;
};

using Pictures = std::vector<Picture>;

}  // namespace ddp::worker
