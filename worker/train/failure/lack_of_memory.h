// Recognises a lack of memory, as LibTorch throws it, and adds advice.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "worker/dist/peer_call.h"

namespace ddp::worker {

/// Whether a device or the host had too little memory for a tensor.
/// Trap: only a lack of an accelerator's memory has a type of its own. The host's allocator is the
/// one case that is decided by the text.
inline bool is_lack_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         error.msg().find("DefaultCPUAllocator") != std::string::npos;
}

/// `text` as a sentence, and then `advice`, which may be empty.
inline std::string with_advice(const std::string& text, const std::string& advice) {
  if (advice.empty()) return text;
  return text + (text.ends_with('.') ? " " : ". ") + advice;
}

/// What LibTorch says of `error`, and then `advice`, which may be empty.
inline std::string told_with_advice(const c10::Error& error, const std::string& advice) {
  return with_advice("LibTorch: " + message_of(error), advice);
}

}  // namespace ddp::worker
