// The frames of one connection after the token handshake: encrypted, authenticated and in order, by
// libsodium's secretstream (XChaCha20-Poly1305), one stream and one key for each direction.
// Promises: opened frames are those that the other side sent on this connection, whole and in
// order; the first other frame breaks the stream for good. Lengths are visible to an eavesdropper.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/net/auth.h"

namespace ddp::launcher {

/// Why a link ends after such a frame.
inline constexpr const char* kAlteredFrame =
    "a frame was altered on its way, or is not of this job";

class FrameCipher {
 public:
  /// For the side `self`. Precondition: both sides have proved that they know `token`.
  FrameCipher(std::string_view token, Prover self, const Transcript& transcript);
  /// Wipes the keys.
  ~FrameCipher();

  /// Encrypts a frame: kSealBytes longer, the first one kSealHeadBytes more.
  std::string seal(std::string_view frame);

  /// Nothing: it is not the next frame of the other side; the stream is broken from now on.
  std::optional<std::string> open(std::string_view sealed);

  [[nodiscard]] bool is_broken() const { return is_broken_; }

 private:
  struct Stream;
  std::unique_ptr<Stream> sent_;
  std::unique_ptr<Stream> received_;
  bool is_broken_ = false;
};

}  // namespace ddp::launcher
