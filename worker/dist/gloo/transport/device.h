// The parts of gloo's header that ProcessGroupGloo.hpp names, because no wheel ships it; see
// context.h.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
