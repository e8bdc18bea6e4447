// Sums and broadcasts over the ranks of one node through memory that they share, in place of Gloo's
// connections.
// The memory has no name: rank 0 makes it (memfd_create(2)), the others open it by rank 0's
// descriptor in /proc, and it is gone with the last of them.
// Promises: element i of a sum is ((x0 + x1) + x2) + ..., in the order of ranks, however tensors
// are put together: bit-equal on every rank and for every layout of buckets. fp16 and bf16 are
// summed in float32 and rounded once. A peer that ends is noticed within kLook, one that does not
// come at the time-out; then the sum fails on every rank, and each later one at once.
// Each byte is copied in and out, in pieces; in a sum rank r sums the r-th part of a piece for all.
// A thread does that, so that backward goes on meanwhile, as with Gloo.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <sys/types.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddp::worker {

class SharedSums {
 public:
  struct Request {
    c10::intrusive_ptr<c10d::Store> store;  // its keys are this round's alone
    int rank = 0;
    int world_size = 1;
    std::chrono::milliseconds join_timeout{0};
    std::chrono::milliseconds timeout{0};
  };

  /// All ranks call it. Null, on all of them: not all ranks are on one node and can open the
  /// memory. Blocks: until all have called it. Errors: c10::DistStoreError.
  static std::unique_ptr<SharedSums> connect(const Request& request);
  SharedSums(const SharedSums&) = delete;
  SharedSums& operator=(const SharedSums&) = delete;
  ~SharedSums();

  /// Whether a tensor of this type on this device can be summed here, or broadcast.
  static bool can_sum(const at::Tensor& tensor);
  static bool can_broadcast(const at::Tensor& tensor);

  /// Begins to sum `tensor` over all ranks, or to copy that of rank `from` to all, in place. All
  /// ranks make the same calls in the same order, with tensors of one size and type. Precondition:
  /// can_sum() or can_broadcast(). Thread-safe. The work's wait() ends at the time-out of
  /// connect(). Its errors: c10::DistNetworkError; std::logic_error, on every rank, when calls
  /// differ.
  c10::intrusive_ptr<c10d::Work> start_sum(const at::Tensor& tensor);
  c10::intrusive_ptr<c10d::Work> start_broadcast(const at::Tensor& tensor, int from);

  /// Lets the calls of all ranks fail from now on.
  void abandon() { end_all(End::loss); }

  static constexpr std::size_t kSmall = 16 << 10;       // bytes of a sum that each rank makes alone
  static constexpr std::size_t kPiece = 1 << 20;        // bytes, at most
  static constexpr std::size_t kRow = 16 << 20;         // bytes of the pieces of all ranks, at most
  static constexpr std::chrono::milliseconds kLook{4};  // between two looks whether a peer lives

 private:
  struct Seat;
  struct Header;
  class Mapping;
  enum class End : std::uint32_t { none, loss, disagreement };  // of all calls, for all ranks

  SharedSums(const Request& request, std::unique_ptr<Mapping> mapping);
  static constexpr std::uint32_t kSlots = 3;
  static constexpr int kNobody = -1;  // in place of the rank that broadcasts: a sum
  struct Call {
    std::uint64_t bytes = 0;
    at::ScalarType type = at::kFloat;
    int from = kNobody;

    bool operator==(const Call&) const = default;
  };
  struct Piece {
    char* data = nullptr;  // in this rank's tensor
    std::size_t bytes = 0;
    std::uint32_t slot = 0;
  };
  struct Started {
    at::Tensor tensor;
    int from = kNobody;
    c10::intrusive_ptr<c10::ivalue::Future> future;
  };

  static std::size_t piece_bytes(int world_size);
  c10::intrusive_ptr<c10d::Work> start(const at::Tensor& tensor, int from);
  void serve();
  void run(const at::Tensor& tensor, int from);
  void broadcast(char* data);
  void sum_small(char* data);
  void sum_large(char* data);
  Piece share(char* data, std::size_t left, bool is_mine);
  void sum_rows(const Piece& piece, std::size_t begin, std::size_t end, char* sums);
  void meet();
  void await(int peer, std::chrono::steady_clock::time_point deadline);
  void require_same_call(std::uint32_t slot);
  void require_all();
  void end_all(End end);
  [[noreturn]] void fail(const std::string& why);

  const int rank_;
  const int world_size_;
  const std::chrono::milliseconds timeout_;
  const bool may_spin_;  // there are enough cores
  const std::unique_ptr<Mapping> mapping_;
  std::uint32_t meetings_ = 0;
  std::uint32_t slot_ = 0;  // of the newest piece
  Call call_;               // under way, or the last one

  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::deque<Started> started_;
  bool is_closing_ = false;
  std::latch has_begun_{1};  // the thread
  std::thread thread_;
};

}  // namespace ddp::worker
