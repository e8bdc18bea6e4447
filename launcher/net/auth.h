// Proof that both ends of a new connection know the job's token, without saying it: each answers
// the other's fresh random number by HMAC-SHA256 over opening, both numbers and its own role. The
// keys of what they say afterwards (net/frame_cipher) come from the same, by other labels.
// Promises: a proof is of use to nobody else and never again; comparing takes the same time
// whatever is wrong. Trap: anyone who can ask for proofs can try out short tokens at home, so a
// token has to be long (run/token sees to that). Order: the node sends its opening and its number,
// node 0 its own number, the node its proof, node 0 its proof. All that was said openly by then is
// part of every proof and key.
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kKeyBytes = 32;

enum class Prover { node, coordinator };

/// What one handshake has said openly.
struct Transcript {
  std::string opening;      // the node's kAgentOpeningBytes: version and flags
  std::string node;         // its random number
  std::string coordinator;  // node 0's
};

/// kNonceBytes random bytes.
std::string make_nonce();

std::string prove(std::string_view token, Prover prover, const Transcript& transcript);

bool is_proof(std::string_view proof,
              std::string_view token,
              Prover prover,
              const Transcript& transcript);

/// Whether two secrets are equal, in a time that tells no more than their length.
bool is_same_secret(std::string_view left, std::string_view right);

/// The kKeyBytes of the frames that `sender` sends after this handshake.
std::string derive_key(std::string_view token, Prover sender, const Transcript& transcript);

}  // namespace ddp::launcher
