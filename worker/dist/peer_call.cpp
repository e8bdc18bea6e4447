#include "worker/dist/peer_call.h"

#include <c10/util/Exception.h>

#include <string_view>
#include <typeinfo>

namespace ddp::worker {

std::string message_of(const std::exception& error) {
  const c10::Error* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

bool is_peer_error(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return true;
  // No wheel ships gloo's headers, so its exceptions (IoException, EnforceNotMet and others) are
  // recognised by their namespace: a mangled nested name begins with N and the length of its first
  // part (Itanium C++ ABI, 5.1.2).
  return std::string_view(typeid(error).name()).starts_with("N4gloo");
}

}  // namespace ddp::worker
