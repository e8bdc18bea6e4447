// The frames of one connection after the token handshake: encrypted, authenticated and in order, by
// libsodium's secretstream (XChaCha20-Poly1305), one stream and one key for each direction.
// Promises: what comes out is what the other side sent, whole and in its order, on this connection;
// the first frame that is not ends it for good. Lengths are seen by anyone who listens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/net/auth.h"

namespace ddp::launcher {

/// Why a link ends by such a frame.
inline constexpr const char* kAlteredFrame =
    "a frame was altered on its way, or is not of this job";

class FrameCipher {
 public:
  /// Of the side that is `self`. Precondition: both have proved that they know `token`.
  FrameCipher(std::string_view token, Prover self, const Transcript& transcript);
  FrameCipher(const FrameCipher&) = delete;
  FrameCipher& operator=(const FrameCipher&) = delete;
  /// Wipes the keys.
  ~FrameCipher();

  /// As it goes onto the wire: kSealBytes longer, the first one kSealHeadBytes more.
  std::string seal(std::string_view frame);

  /// Nothing: it is not the next frame of the other side; nor will any other be.
  std::optional<std::string> open(std::string_view sealed);

  [[nodiscard]] bool is_broken() const { return is_broken_; }

 private:
  struct Stream;
  std::unique_ptr<Stream> sent_;
  std::unique_ptr<Stream> received_;
  bool is_broken_ = false;
};

}  // namespace ddp::launcher
