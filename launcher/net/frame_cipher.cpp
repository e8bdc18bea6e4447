#include "launcher/net/frame_cipher.h"

#include <sodium.h>

#include "launcher/plan/secret.h"
#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {
namespace {

using State = crypto_secretstream_xchacha20poly1305_state;

constexpr auto& push = crypto_secretstream_xchacha20poly1305_push;
constexpr auto& pull = crypto_secretstream_xchacha20poly1305_pull;
constexpr unsigned char kMessage = crypto_secretstream_xchacha20poly1305_TAG_MESSAGE;

static_assert(kKeyBytes == crypto_secretstream_xchacha20poly1305_KEYBYTES);
static_assert(kSealBytes == crypto_secretstream_xchacha20poly1305_ABYTES);
static_assert(kSealHeadBytes == crypto_secretstream_xchacha20poly1305_HEADERBYTES);

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

}  // namespace

/// One direction. Its first frame carries the stream's header and uses up the key.
struct FrameCipher::Stream {
  State state{};
  std::string key;  // empty: the stream has begun
  ~Stream() {
    wipe(key);
    ::sodium_memzero(&state, sizeof state);
  }
};

FrameCipher::FrameCipher(std::string_view token, Prover self, const Transcript& transcript)
    : sent_(std::make_unique<Stream>()), received_(std::make_unique<Stream>()) {
  const Prover other = self == Prover::node ? Prover::coordinator : Prover::node;
  // One key per direction: with one for both, a frame could be sent back to its sender.
  sent_->key = derive_key(token, self, transcript);
  received_->key = derive_key(token, other, transcript);
}

FrameCipher::~FrameCipher() = default;

std::string FrameCipher::seal(std::string_view frame) {
  std::string sealed;
  if (!sent_->key.empty()) {
    sealed.resize(kSealHeadBytes);
    crypto_secretstream_xchacha20poly1305_init_push(
        &sent_->state, bytes_of(sealed), bytes_of(std::string_view(sent_->key)));
    // The stream has derived its own key, so keep no copy in memory.
    wipe(sent_->key);
  }
  const std::size_t head = sealed.size();
  sealed.resize(head + frame.size() + kSealBytes);
  unsigned char* const body = bytes_of(sealed) + head;
  push(&sent_->state, body, nullptr, bytes_of(frame), frame.size(), nullptr, 0, kMessage);
  return sealed;
}

std::optional<std::string> FrameCipher::open(std::string_view sealed) {
  if (!received_->key.empty() && sealed.size() >= kSealHeadBytes) {
    is_broken_ |=
        crypto_secretstream_xchacha20poly1305_init_pull(
            &received_->state, bytes_of(sealed), bytes_of(std::string_view(received_->key))) != 0;
    wipe(received_->key);
    sealed.remove_prefix(kSealHeadBytes);
  }
  // No message is empty: a frame not longer than its seal was cut or forged.
  is_broken_ |= !received_->key.empty() || sealed.size() <= kSealBytes;
  if (is_broken_) return std::nullopt;
  std::string frame(sealed.size() - kSealBytes, '\0');
  const unsigned char* const body = bytes_of(sealed);
  unsigned char* const into = bytes_of(frame);
  is_broken_ =
      pull(&received_->state, into, nullptr, nullptr, body, sealed.size(), nullptr, 0) != 0;
  if (is_broken_) return std::nullopt;
  return frame;
}

}  // namespace ddp::launcher
