// The state of a Context, and the part of a Ddp that ends with it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/node/identity.h"
#include "common/progress/progress_page.h"
#include "worker/dist/ddp.h"
#include "worker/dist/device.h"
#include "worker/own_loop/context.h"
#include "worker/own_loop/ddp.h"

namespace ddp {

/// Trap: a reducer must end before its group does, or it is used after free.
struct Ddp::Engine {
  std::optional<worker::Ddp> reducer;  // none after Context::finish()
  bool is_inside = false;              // inside backward(), or backward() has failed
};

struct Context::State {
  WorkerIdentity self;
  worker::Device device;
  std::optional<MappedProgressPage> page;
  std::unique_ptr<worker::Group> group;              // null after finish()
  std::vector<std::weak_ptr<Ddp::Engine>> replicas;  // those that may be alive
};

}  // namespace ddp
