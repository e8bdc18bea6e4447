// SHA-256, which identifies published files. Wraps libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace ddp::worker {

/// Hashes bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  /// 64 hexadecimal digits, as sha256sum(1) prints them. Must be the last call.
  [[nodiscard]] std::string finish();

 private:
  alignas(64) std::array<std::byte, 128> state_{};
};

/// The hash of a whole file. Errors: SystemError when it is not a regular file or cannot be read.
std::string sha256_of(const std::filesystem::path& path);

}  // namespace ddp::worker
