// The state of a Context, and the part of each Ddp that Context::finish() destroys.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/node/identity.h"
#include "common/progress/progress_page.h"
#include "worker/dist/ddp.h"
#include "worker/dist/device.h"
#include "worker/user_loop/context.h"
#include "worker/user_loop/ddp.h"

namespace ddp {

/// Trap: the reducer must be destroyed before its group. Otherwise it uses the freed group.
struct Ddp::Engine {
  std::optional<worker::Ddp> reducer;  // none after Context::finish()
  bool is_in_backward = false;         // also after backward() has thrown
};

struct Context::State {
  WorkerIdentity self;
  worker::Device device;
  std::optional<MappedProgressPage> page;
  std::unique_ptr<worker::Group> group;              // null after finish()
  std::vector<std::weak_ptr<Ddp::Engine>> replicas;  // of all Ddp objects made so far
};

}  // namespace ddp
