#include "worker/dist/peer_call.h"

namespace ddp::worker {

std::string message_of(const std::exception& error) {
  const c10::Error* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace ddp::worker
