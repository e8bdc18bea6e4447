// Finds out what answers at MASTER_ADDR:MASTER_PORT: nobody, LibTorch's store, something else, or a
// rank 0 of this job that does not join and says why (worker/dist/error_server).
#pragma once

#include <netdb.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/files/descriptor.h"
#include "common/node/identity.h"

namespace ddp::worker {

/// What ask() sends: VALIDATE and PING, as LibTorch's client does. The store echoes the last four
/// bytes. Trap: LibTorch's client waits for that echo without a limit.
inline constexpr std::string_view kHello(
    "\x00\xCE\xF7\x85\x3C\x0D"
    "ddp?",
    10);
/// A rank 0 that does not join answers with this mark, the length of the rest in four bytes (big
/// endian), its job_line() and the reason. A rank that is ready to exit replies with its own
/// job_line() and its rank in four bytes. Rank 0 sends a last byte when it exits by itself, not
/// when it is killed or yields its port.
inline constexpr std::string_view kErrorMark = "ddp!";
inline constexpr std::size_t kLongestError = 16384;
inline constexpr std::chrono::seconds kLeaveWithin{7};  // longer than a rank 0 waits

/// The text by which ranks of one job recognise each other: run id, round and world size. Two jobs
/// without a run id may have the same text.
std::string job_line(const WorkerIdentity& self);

struct StoreAnswer {
  bool is_listening = false;                 // something accepts connections there
  std::optional<std::string> local_address;  // this side's, when a store answers
  std::optional<std::string> error;          // why rank 0 of this job does not serve a store
  Descriptor to_rank_0;                      // connection to that rank 0
};

/// Tells a rank 0 that does not join that this rank is ready to exit. Blocks: until rank 0 exits,
/// at most kLeaveWithin. Returns whether it has. False: it was killed, did not exit in time, or
/// made room for a rank 0 that joins, so ask again.
bool leave_with_rank_0(const Descriptor& to_rank_0, const WorkerIdentity& self);

class StoreAddresses {
 public:
  /// Resolves MASTER_ADDR. Blocks: for the resolver. Errors: PeerError, 202.
  explicit StoreAddresses(const WorkerIdentity& self);
  StoreAddresses(const StoreAddresses&) = delete;
  StoreAddresses& operator=(const StoreAddresses&) = delete;
  ~StoreAddresses();

  /// Tries all addresses of the host once. LibTorch's own client backs off for 0.3 to 0.7 s when
  /// the store is not up yet; this takes microseconds. Blocks: until `deadline` or a little longer,
  /// and at most some seconds for each address.
  [[nodiscard]] StoreAnswer ask(std::chrono::steady_clock::time_point deadline) const;

 private:
  std::string job_;
  addrinfo* first_ = nullptr;
};

}  // namespace ddp::worker
