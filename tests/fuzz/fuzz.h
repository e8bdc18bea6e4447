// What every fuzz target shares. A target calls one reader with any bytes and checks what the
// reader promises of what it accepted. Only the promised exception may come out; any other, a
// sanitizer's finding, a time-out or a broken promise ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace ddp::fuzz {

/// Ends the run, with the input kept by libFuzzer. Errors: std::logic_error, which nothing catches.
inline void require(bool promise, const std::string& broken) {
  if (!promise) throw std::logic_error("broken promise: " + broken);
}

inline std::string to_string(const std::uint8_t* data, std::size_t size) {
  return std::string(reinterpret_cast<const char*>(data), size);
}

}  // namespace ddp::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
