// Where the exceptions of c10d and gloo become ours.
// A lost peer is a PeerError (97: a victim whenever another failure is known). What is our own
// fault, a wrong shape or no memory, must not look like one, so it passes through.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

#include "common/error.h"

namespace ddp::worker {

/// The message without the C++ stack that c10 and gloo put behind it.
std::string message_of(const std::exception& error);

/// Runs a call that needs the other ranks. `during` says what was going on.
/// Errors: PeerError for c10d's and gloo's exceptions (gloo's are plain std::exceptions); others as
/// they are.
template <typename Call>
auto with_peers(const std::string& during, Call call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::DistError& error) {
    throw PeerError("lost a peer during " + during + ": " + message_of(error));
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError("lost a peer during " + during + ": " + message_of(error));
  }
}

}  // namespace ddp::worker
