#include "worker/plan/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string_view>

namespace ddp::worker {
namespace {

std::string to_text(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  constexpr std::string_view kHexadecimal = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kHexadecimal[byte >> 4];
    text += kHexadecimal[byte & 15];
  }
  return text;
}

}  // namespace

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}
Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Digest::text() const {
  return to_text(XXH3_128bits_digest(&state_->hash));
}

std::string digest(std::span<const std::byte> bytes) {
  return to_text(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace ddp::worker
