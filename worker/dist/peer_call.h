// Turns exceptions of c10d and gloo about a lost peer into a PeerError (97: a victim whenever
// another failure is known; 124 after a time-out). All other errors, ours or the user's (a wrong
// shape, no memory, an exception of a model or a hook in the middle of backward), must not be taken
// for a lost peer: they pass through unchanged.
#pragma once

#include <chrono>
#include <exception>
#include <string>

#include "worker/dist/group.h"

namespace ddp::worker {

/// The message without the C++ stack that c10 and gloo append to it.
std::string message_of(const std::exception& error);

/// Whether `error` comes from c10d, gloo or NCCL and means that a rank or its connection is lost.
/// Decided by the exception's type, never by its text.
bool is_peer_error(const std::exception& error);

/// Runs a call that needs the other ranks of `group`. `during` describes it, for messages.
/// Errors: PeerError if is_peer_error(); others unchanged.
template <typename Call>
auto with_peers(const Group& group, const std::string& during, Call call) {
  const auto began = std::chrono::steady_clock::now();
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (!is_peer_error(error)) throw;
    throw group.explain_lost_peer(during, began, message_of(error));
  }
}

}  // namespace ddp::worker
