// Sums, broadcasts and gathers over the ranks of one node through shared memory instead of Gloo's
// connections. Over several nodes the first rank of each exchanges its node's sum (set_exchange).
// Promises, inside of a node: element i of a sum is ((x0 + x1) + x2) + ..., in the order of ranks,
// whatever the layout of buckets: bit-equal on every rank. fp16 and bf16 are summed in float32 and
// rounded once. A peer that ends is noticed within kPeerCheck, one that does not come at the
// time-out; then the call fails on every rank, and each later one at once. A large sum is a
// reduce-scatter and an all-gather: for each chunk of the tensor, rank r sums the r-th part for all
// ranks. If the tensors of all ranks lie in memory of allocate(), nothing is copied: rank r sums
// there the r-th part of all. Calls of start() run in threads, so that backward continues, as with
// Gloo; those of run() in the caller's thread. A callback of a call may wait for another call.
// Trap: callbacks run in those threads; it is up to the caller that all ranks make their calls in
// the same order.
#pragma once

#include <ATen/core/Tensor.h>
#include <sys/types.h>

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
#include <utility>
#include <vector>

#include "worker/dist/sum_work.h"
#include "worker/dist/sums_memory.h"

namespace ddp::worker {

class SharedSums {
 public:
  /// Gathers a text of at most 255 bytes from each rank. All ranks call it. Returns them by rank.
  using Gather = SumsMemory::Gather;
  struct Connected {
    std::unique_ptr<SharedSums> sums;  // null: not all ranks could map the memory
    std::string why_not;               // why `sums` is null; the same on all ranks
  };

  /// All ranks of a node call it, each with its place among them. `names`: by place, the ranks'
  /// numbers in messages. Blocks: until all have called it. Errors: those of `gather`.
  static Connected connect(int rank, const std::vector<int>& names, const Gather& gather);
  SharedSums(const SharedSums&) = delete;
  SharedSums& operator=(const SharedSums&) = delete;
  /// Blocks: until started calls have ended, because calls of other ranks depend on them.
  ~SharedSums();

  /// Sums in place over nodes what the ranks of a node have summed.
  using Exchange = std::function<void(const at::Tensor& sum, std::chrono::milliseconds timeout)>;
  /// From now on sums are over several nodes; broadcasts and gathers stay this node's. Rank 0 alone
  /// calls `exchange`, whose errors fail the sum on every rank of the node, and later calls. Call
  /// it on all ranks before the first sum.
  void set_exchange(Exchange exchange) { exchange_ = std::move(exchange); }

  /// Whether sums and broadcasts support the tensor's type and device.
  static bool can_sum(const at::Tensor& tensor);
  static bool can_broadcast(const at::Tensor& tensor);
  /// Whether gathers support these tensors; `outputs` has one for each rank.
  static bool can_gather(const at::Tensor& tensor, const std::vector<at::Tensor>& outputs);

  struct Call {
    at::Tensor tensor;                  // summed in place, unless `from` or `outputs` is set
    std::chrono::milliseconds timeout;  // of this call
    std::optional<int> from;            // a broadcast from this rank, in place
    std::vector<at::Tensor> outputs;    // a gather into these, by rank
    std::function<void()> on_end{};     // called before waiters go on; may be empty
  };
  /// Precondition: can_sum(), can_broadcast() or can_gather(). All ranks make the same calls in the
  /// same order, with tensors of one size and type. `start` returns at once, `run` when the call
  /// has ended, well or not. Thread-safe. The work's errors:
  /// c10::DistNetworkError; std::logic_error, on every rank, when calls differ. After an error each
  /// later call has the same one.
  c10::intrusive_ptr<c10d::Work> start(Call call);
  c10::intrusive_ptr<c10d::Work> run(Call call);

  /// A tensor of `count` elements with undefined content, whose sums are not copied: for those that
  /// are made often. It may outlive this object. Undefined if there is no memory for it.
  /// Traps: a process that this one forks shares it. After a failed sum, a rank that was stopped
  /// may still write up to 16 KiB into it when it goes on.
  at::Tensor allocate(std::int64_t count, at::ScalarType type);

  /// Blocks: until all calls started so far have ended, with success or not.
  void drain();

  /// Makes the calls of all ranks fail from now on.
  void abandon() { end_all(End::loss); }

  // Up to so many bytes of all ranks' tensors, each rank sums everything itself.
  static constexpr std::size_t kSmallBytes = 64 << 10;
  static constexpr std::chrono::milliseconds kPeerCheck{4};  // between checks that a peer is alive

 private:
  using RankState = SumsMemory::RankState;
  using CallKind = SumsMemory::CallKind;
  enum class End : std::uint32_t { none, loss, disagreement };  // why all calls of all ranks fail

  SharedSums(int rank, const std::vector<int>& names, std::unique_ptr<SumsMemory> memory);
  struct Chunk {
    char* data = nullptr;  // in this rank's tensor
    std::size_t bytes = 0;
    std::uint32_t slot = 0;
  };
  struct Part {
    std::size_t begin = 0;  // offset in a chunk, in bytes
    std::size_t bytes = 0;
  };
  struct Started {
    Call call;
    TensorsFuture future;
  };

  void add_thread_if_needed();
  void serve();
  std::exception_ptr execute(const Call& call, int spins);
  void execute(const Call& call);
  void exchange(const at::Tensor& sum);
  [[nodiscard]] std::string name_of(int rank) const;
  void broadcast(char* data);
  void gather(char* data, const std::vector<at::Tensor>& outputs);
  void sum_small(char* data);
  void sum_large(char* data);
  void sum_in_place(char* data, std::uint32_t slot);
  [[nodiscard]] int count_in_place(std::uint32_t slot) const;
  Chunk take_slot(char* data, std::size_t left);
  void publish_other_parts(const Chunk& chunk);
  [[nodiscard]] Part part_of(const Chunk& chunk, int rank) const;
  void sum_rows(const Chunk& chunk, Part part, char* copy_of_sums);
  void barrier();
  void wait_for(int peer);
  void require_same_call(std::uint32_t slot);
  void require_not_ended();
  void end_all(End end);
  [[noreturn]] void fail(const std::string& why);

  const int rank_;
  const int world_size_;
  const bool may_spin_;  // there is a core for each rank
  const std::unique_ptr<SumsMemory> memory_;
  const std::vector<int> names_;  // of the ranks
  Exchange exchange_;             // empty: sums are over this node alone

  // Used by the thread that runs a call.
  std::uint32_t barriers_ = 0;
  std::uint32_t slot_ = 0;   // of the last chunk
  CallKind kind_;            // of the current call, or of the last one
  std::uint64_t place_ = 0;  // see RankState::places
  int spins_ = 0;            // before it sleeps in a futex
  std::vector<const char*> rows_;
  std::chrono::steady_clock::time_point deadline_;
  std::exception_ptr failure_;  // of the first call that has failed

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Started> started_;            // waiting for a thread
  std::vector<TensorsFuture> unfinished_;  // of calls that may not have ended
  bool is_running_ = false;                // a call, in whatever thread
  bool is_closing_ = false;
  std::size_t completing_ = 0;  // threads in callbacks, which may wait for other calls
  std::vector<std::thread> threads_;
  std::latch has_started_{1};  // the first thread has
};

}  // namespace ddp::worker
