#include "launcher/net/auth.h"

#include <sodium.h>

#include "common/error.h"

namespace ddp::launcher {
namespace {

static_assert(kProofBytes == crypto_auth_hmacsha256_BYTES);

void add(crypto_auth_hmacsha256_state& state, std::string_view text) {
  crypto_auth_hmacsha256_update(
      &state, reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

}  // namespace

std::string make_nonce() {
  if (::sodium_init() < 0) throw SystemError("sodium_init: no random numbers");
  std::string nonce(kNonceBytes, '\0');
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string prove(const std::string& token, Prover prover, const Nonces& nonces) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(
      &state, reinterpret_cast<const unsigned char*>(token.data()), token.size());
  // Nonces have one length, roles end by themselves: no two inputs give the same bytes.
  add(state, nonces.node);
  add(state, nonces.coordinator);
  add(state, prover == Prover::node ? "ddp-launch node" : "ddp-launch coordinator");
  std::string proof(kProofBytes, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
  return proof;
}

bool is_proof(std::string_view proof,
              const std::string& token,
              Prover prover,
              const Nonces& nonces) {
  const std::string right = prove(token, prover, nonces);
  return proof.size() == right.size() &&
         ::sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace ddp::launcher
