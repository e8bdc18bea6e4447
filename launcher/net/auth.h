// Proof that both ends of a new connection know the job's token, without saying it: each answers
// the other's fresh random number by HMAC-SHA256 over both numbers and its own role.
// Promises: a proof is of use to nobody else and never again; comparing takes the same time
// whatever is wrong. Trap: whoever can ask for proofs can try out short tokens at home, so a token
// has to be long (run/load_job sees to that).
// Order: node sends its number, node 0 its own, the node its proof, node 0 its proof.
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;

enum class Prover { node, coordinator };

/// The random numbers of one handshake.
struct Nonces {
  std::string node;
  std::string coordinator;
};

/// kNonceBytes random bytes.
std::string make_nonce();

std::string prove(const std::string& token, Prover prover, const Nonces& nonces);

bool is_proof(std::string_view proof,
              const std::string& token,
              Prover prover,
              const Nonces& nonces);

}  // namespace ddp::launcher
