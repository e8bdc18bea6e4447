#include "launcher/plan/endpoint_text.h"

namespace ddp::launcher {

std::string endpoint_text(const std::string& address, int port) {
  const bool is_v6 = address.find(':') != std::string::npos;
  return (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

}  // namespace ddp::launcher
