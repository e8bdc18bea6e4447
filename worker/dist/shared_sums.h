// Sums, broadcasts and gathers over the ranks of one node through memory that they share, in place
// of Gloo's connections.
// The memory has no name: rank 0 makes it (memfd_create(2)), the others open it by rank 0's
// descriptor in /proc, and it is gone with the last of them.
// Promises: element i of a sum is ((x0 + x1) + x2) + ..., in the order of ranks, however tensors
// are put together: bit-equal on every rank and for every layout of buckets. fp16 and bf16 are
// summed in float32 and rounded once. A peer that ends is noticed within kPeerCheck, one that does
// not come at the time-out; then the sum fails on every rank, and each later one at once. In a sum
// rank r sums the r-th part of a piece for all: what others sum is copied in, and out. Threads do
// that, so that backward goes on meanwhile, as with Gloo. A call that its caller waits for runs in
// the caller's thread. A callback of a call may wait for another call. Trap: callbacks run beside
// other threads, so it is up to the caller that the calls of both have one order on all ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <sys/types.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddp::worker {

class SharedSums {
 public:
  /// All ranks call it. Returns the texts of all ranks, by rank. A text has 255 bytes at most.
  using Gather = std::function<std::vector<std::string>(const std::string& own)>;
  struct Connected {
    std::unique_ptr<SharedSums> sums;  // null: not all ranks are on one node and have the memory
    std::string why_not;               // then, the same on all ranks
  };

  /// All ranks call it. Blocks: until all have called it. Errors: those of `gather`.
  static Connected connect(int rank, int world_size, const Gather& gather);
  SharedSums(const SharedSums&) = delete;
  SharedSums& operator=(const SharedSums&) = delete;
  /// Ends what has been started, as the calls of other ranks depend on it.
  ~SharedSums();

  /// Whether a tensor of this type on this device can be summed here, or broadcast.
  static bool can_sum(const at::Tensor& tensor);
  static bool can_broadcast(const at::Tensor& tensor);
  /// Whether it can be gathered into these tensors, one of each rank.
  static bool can_gather(const at::Tensor& tensor, const std::vector<at::Tensor>& outputs);

  struct Call {
    at::Tensor tensor;  // summed in place over all ranks, unless `from` or `outputs` is set
    std::chrono::milliseconds timeout;  // the call ends within it
    std::optional<int> from;            // the rank whose tensor all get, in place
    std::vector<at::Tensor> outputs;    // where the tensors of all ranks go, by rank
  };
  /// Precondition: can_sum(), can_broadcast() or can_gather(). All ranks make the same calls in the
  /// same order, with tensors of one size and type. `start` returns at once, `run` when the call
  /// has ended, well or not. Thread-safe. The work's errors:
  /// c10::DistNetworkError; std::logic_error, on every rank, when calls differ. After an error each
  /// later call has the same one.
  c10::intrusive_ptr<c10d::Work> start(Call call);
  c10::intrusive_ptr<c10d::Work> run(Call call);

  /// Blocks: until what has been started by now has ended, well or not.
  void drain();

  /// Lets the calls of all ranks fail from now on.
  void abandon() { end_all(End::loss); }

  // Bytes of all ranks' tensors whose sum each rank makes alone.
  static constexpr std::size_t kSmallBytes = 64 << 10;
  static constexpr std::size_t kPieceBytes = 512 << 10;  // bytes, at most
  static constexpr std::size_t kRowBytes = 16 << 20;  // bytes of the pieces of all ranks, at most
  static constexpr std::chrono::milliseconds kPeerCheck{
      4};  // between two looks whether a peer lives

 private:
  struct RankState;
  struct Header;
  class Mapping;
  enum class End : std::uint32_t { none, loss, disagreement };  // of all calls, for all ranks

  SharedSums(int rank, int world_size, std::unique_ptr<Mapping> mapping);
  static constexpr std::uint32_t kSlots = 3;
  static constexpr int kSum = -1;
  static constexpr int kGather = -2;
  /// What all ranks must agree on.
  struct CallKind {
    std::uint64_t bytes = 0;
    at::ScalarType type = at::kFloat;
    int operation = kSum;  // kSum, kGather, or the rank that broadcasts

    bool operator==(const CallKind&) const = default;
  };
  struct Piece {
    char* data = nullptr;  // in this rank's tensor
    std::size_t bytes = 0;
    std::uint32_t slot = 0;
  };
  struct Part {
    std::size_t begin = 0;  // in bytes of a piece
    std::size_t bytes = 0;
  };
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  struct Started {
    Call call;
    Future future;
  };

  static std::size_t piece_bytes(int world_size);
  void add_thread_if_needed();
  void serve();
  std::exception_ptr carry_out(const Call& call, int spins);
  void carry_out(const Call& call);
  void broadcast(char* data);
  void gather(char* data, const std::vector<at::Tensor>& outputs);
  void sum_small(char* data);
  void sum_large(char* data);
  Piece take_slot(char* data, std::size_t left);
  Piece share_parts_of_others(char* data, std::size_t left);
  [[nodiscard]] Part part_of(const Piece& piece, int rank) const;
  void sum_rows(const Piece& piece, Part part, char* copy_of_sums);
  void meet();
  void await(int peer);
  void require_same_call(std::uint32_t slot);
  void require_not_ended();
  void end_all(End end);
  [[noreturn]] void fail(const std::string& why);

  const int rank_;
  const int world_size_;
  const bool may_spin_;  // there are enough cores
  const std::unique_ptr<Mapping> mapping_;

  // Of the thread that runs a call.
  std::uint32_t meetings_ = 0;
  std::uint32_t slot_ = 0;  // of the newest piece
  CallKind kind_;           // of the call that is under way, or of the last one
  int spins_ = 0;           // before it sleeps
  std::vector<const char*> rows_;
  std::chrono::steady_clock::time_point deadline_;
  std::exception_ptr failure_;  // of the first call that failed

  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::deque<Started> started_;  // not begun yet
  std::vector<Future> open_;     // that may not have ended
  bool is_running_ = false;      // a call, in one of the threads or in that of a caller
  bool is_closing_ = false;
  std::size_t completing_ = 0;  // threads inside of callbacks, which may wait for other calls
  std::vector<std::thread> threads_;
  std::latch has_begun_{1};  // the first thread
};

}  // namespace ddp::worker
