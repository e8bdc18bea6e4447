#include "worker/fetch/sha256.h"

#include <sodium.h>

#include <optional>
#include <vector>

#include "common/error.h"
#include "common/files/input_file.h"

namespace ddp::worker {
namespace {

static_assert(sizeof(crypto_hash_sha256_state) <= 128);

crypto_hash_sha256_state* as_state(std::array<std::byte, 128>& bytes) {
  return reinterpret_cast<crypto_hash_sha256_state*>(bytes.data());
}

}  // namespace

Sha256::Sha256() {
  crypto_hash_sha256_init(as_state(state_));
}

void Sha256::update(std::span<const std::byte> bytes) {
  crypto_hash_sha256_update(
      as_state(state_), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::string Sha256::finish() {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(as_state(state_), digest.data());
  std::array<char, 2 * crypto_hash_sha256_BYTES + 1> text{};
  sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size());
  return text.data();
}

std::string sha256_of(const std::filesystem::path& path) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) throw SystemError("cannot read " + path.string() + ": " + why_not);
  Sha256 sum;
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (;;) {
    const std::size_t size = file->read(buffer);
    sum.update(std::span(buffer).first(size));
    if (size < buffer.size()) return sum.finish();
  }
}

}  // namespace ddp::worker
