// What ProcessGroupGloo.hpp names of this header of gloo, which no wheel ships; see context.h.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
