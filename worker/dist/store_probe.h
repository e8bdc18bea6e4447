// What answers at MASTER_ADDR:MASTER_PORT: nobody, LibTorch's store, something else, or a rank 0
// that does not join and says why (worker/dist/refusal_server).
#pragma once

#include <netdb.h>

#include <optional>
#include <string>
#include <string_view>

#include "common/descriptor.h"
#include "common/identity.h"

namespace ddp::worker {

/// A try says VALIDATE and PING, as LibTorch's client does; the store answers with the last four
/// bytes. Trap: that client waits for the echo without an end.
inline constexpr std::string_view kHello(
    "\x00\xCE\xF7\x85\x3C\x0D"
    "ddp?",
    10);
/// A rank 0 that refuses sends this mark, the length in four bytes (big endian) and the text. Who
/// needs it no longer answers with its rank, in four bytes.
inline constexpr std::string_view kRefusalMark = "ddp!";
inline constexpr std::size_t kLongestRefusal = 16384;

struct StoreProbe {
  bool is_heard = false;                     // somebody takes connections there
  std::optional<std::string> local_address;  // this side's, when a store answers
  std::optional<std::string> refusal;        // why rank 0 serves none
  Descriptor caller;                         // to that rank 0
};

/// To rank 0: this rank has heard the refusal, and has said what it had to say.
void confirm_refusal(const Descriptor& caller, int rank);

class StoreAddresses {
 public:
  /// Blocks: for the resolver. Errors: PeerError, 202.
  explicit StoreAddresses(const WorkerIdentity& self);
  StoreAddresses(const StoreAddresses&) = delete;
  StoreAddresses& operator=(const StoreAddresses&) = delete;
  ~StoreAddresses();

  /// One try on all addresses of the host. LibTorch's own client backs off for 0.3 to 0.7 s when
  /// the store is not up yet; this tells it in microseconds. Blocks: some seconds for each address.
  [[nodiscard]] StoreProbe probe() const;

 private:
  addrinfo* first_ = nullptr;
};

}  // namespace ddp::worker
