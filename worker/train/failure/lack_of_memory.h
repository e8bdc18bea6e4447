// Recognises LibTorch's out-of-memory errors, and adds advice to them.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "worker/dist/peer_call.h"

namespace ddp::worker {

/// Whether memory for a tensor could not be allocated, on a device or the host.
/// Trap: only an accelerator's error has a type of its own; that of the host's allocator is
/// recognised by its text.
inline bool is_lack_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         error.msg().find("DefaultCPUAllocator") != std::string::npos;
}

/// `text` as a sentence, then `advice`, which may be empty.
inline std::string with_advice(const std::string& text, const std::string& advice) {
  if (advice.empty()) return text;
  return text + (text.ends_with('.') ? " " : ". ") + advice;
}

/// The message of `error`, then `advice`, which may be empty.
inline std::string message_with_advice(const c10::Error& error, const std::string& advice) {
  return with_advice("LibTorch: " + message_of(error), advice);
}

}  // namespace ddp::worker
