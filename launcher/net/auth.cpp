#include "launcher/net/auth.h"

#include <sodium.h>

#include "common/error.h"

namespace ddp::launcher {
namespace {

static_assert(kProofBytes == crypto_auth_hmacsha256_BYTES);
static_assert(kKeyBytes == crypto_auth_hmacsha256_BYTES);

void add(crypto_auth_hmacsha256_state& state, std::string_view text) {
  crypto_auth_hmacsha256_update(
      &state, reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

/// Opening and nonces have fixed lengths and the label comes last: no two inputs give the same
/// bytes.
std::string mac(std::string_view token, const Transcript& transcript, std::string_view label) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(
      &state, reinterpret_cast<const unsigned char*>(token.data()), token.size());
  add(state, transcript.opening);
  add(state, transcript.node);
  add(state, transcript.coordinator);
  add(state, label);
  std::string result(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(result.data()));
  ::sodium_memzero(&state, sizeof state);
  return result;
}

}  // namespace

std::string make_nonce() {
  // Opens the source of random numbers; a second call does nothing.
  if (::sodium_init() < 0) throw SystemError("sodium_init: no random numbers");
  std::string nonce(kNonceBytes, '\0');
  ::randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string prove(std::string_view token, Prover prover, const Transcript& transcript) {
  return mac(
      token, transcript, prover == Prover::node ? "ddp-launch node" : "ddp-launch coordinator");
}

bool is_proof(std::string_view proof,
              std::string_view token,
              Prover prover,
              const Transcript& transcript) {
  return is_same_secret(proof, prove(token, prover, transcript));
}

bool is_same_secret(std::string_view left, std::string_view right) {
  // Not memcmp(3), whose time reveals where the first difference is.
  return left.size() == right.size() &&
         ::sodium_memcmp(left.data(), right.data(), right.size()) == 0;
}

std::string derive_key(std::string_view token, Prover sender, const Transcript& transcript) {
  return mac(token,
             transcript,
             sender == Prover::node ? "ddp-launch frames of a node"
                                    : "ddp-launch frames of the coordinator");
}

}  // namespace ddp::launcher
