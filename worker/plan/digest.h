// XXH3-128, the checksum of checkpoints: finds damage at memory speed; it does not protect against
// an attacker.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ddp::worker {

/// Hashes bytes that come in pieces.
class Digest {
 public:
  Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  ~Digest();

  void update(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits of the bytes so far, as `xxhsum -H2` prints them.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The digest of one piece.
std::string digest(std::span<const std::byte> bytes);

}  // namespace ddp::worker
