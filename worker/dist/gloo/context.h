// The parts of gloo's header that ProcessGroupGloo.hpp names, because no wheel ships it. Nothing is
// defined here: the symbols are in libtorch_cpu, and the class only holds pointers to these types.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
