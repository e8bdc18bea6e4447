// Proof that both ends of a new connection know the job's token, without sending it: each answers
// the other's fresh random number (nonce) by HMAC-SHA256 over opening, both nonces and its own
// role. The keys of later frames (net/frame_cipher) are derived in the same way, with other labels.
// Order: the node sends its opening and its nonce, node 0 its nonce, the node its proof, node 0 its
// proof. All plain bytes before the proofs are part of every proof and key.
// Promises: a proof is valid for one connection and one side only; a comparison takes the same time
// wherever the difference is.
// Trap: a peer that gets a proof can try short tokens against it offline, so a token must be long
// (run/token checks that).
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kKeyBytes = 32;

enum class Prover { node, coordinator };

/// The plain bytes of one handshake.
struct Transcript {
  std::string opening;      // the node's kAgentOpeningBytes: version and flags
  std::string node;         // its nonce
  std::string coordinator;  // node 0's nonce
};

/// kNonceBytes random bytes.
std::string make_nonce();

std::string prove(std::string_view token, Prover prover, const Transcript& transcript);

bool is_proof(std::string_view proof,
              std::string_view token,
              Prover prover,
              const Transcript& transcript);

/// Whether two secrets are equal, in a time that reveals no more than their length.
bool is_same_secret(std::string_view left, std::string_view right);

/// The kKeyBytes of the frames that `sender` sends after this handshake.
std::string derive_key(std::string_view token, Prover sender, const Transcript& transcript);

}  // namespace ddp::launcher
