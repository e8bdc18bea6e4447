// The ranks of a job as the training loop sees them: a few collectives on tensors of the CPU or of
// this rank's device.
// Two implementations: a single process, and c10d's Gloo with NCCL beside it for GPUs
// (dist/gloo_group). Never call a collective on an error path: a dead peer would make it hang.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/progress/progress_page.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace ddp::worker {

/// A sum over ranks in progress. wait() returns its result.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  /// Blocks: until every rank has contributed. Errors: PeerError.
  virtual at::Tensor wait() = 0;
};

class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world_size() const = 0;
  /// Whether this rank prints, reads weights and saves.
  [[nodiscard]] virtual bool is_root() const { return rank() == 0; }

  // --- Collectives: every rank makes these calls in the same order.
  // They block until all ranks have made them. Errors: PeerError: 97 when a rank is lost, 124 with
  // the missing ranks when the group's timeout is over.

  /// Replaces the tensor by its sum over the ranks.
  virtual void all_reduce(at::Tensor& tensor) = 0;
  /// Starts such a sum and does not block; wait() of its result does.
  [[nodiscard]] virtual std::unique_ptr<PendingSum> start_all_reduce(at::Tensor tensor) = 0;
  /// Replaces the tensor by that of rank `from`.
  virtual void broadcast(at::Tensor& tensor, int from = 0) = 0;
  /// The tensors of all ranks, on every rank. Shapes: [world_size, ...].
  [[nodiscard]] virtual at::Tensor all_gather(const at::Tensor& tensor) = 0;

  // --- Other calls.

  /// All ranks compare `text` over the store, without a collective; call it in the same order on
  /// all. `what` names it in messages: "model". A text of several lines is compared as a whole, and
  /// the first line that differs is shown.
  /// Blocks: until all have called it, at most the join time-out. Errors: PeerError, the same on
  /// every rank: 203 names the rank that differs and both values, 124 the missing rank.
  virtual void require_same(const std::string& what, const std::string& text) = 0;

  /// Waits for all ranks, then disconnects them in order. A program that succeeds calls it last.
  virtual void close() = 0;

  /// Aborts the group, for a rank that continues in another one after a PeerError. Ends the
  /// collectives in progress, here and so on the remaining ranks. Afterwards only the destructor
  /// may be called; it does not wait for peers.
  virtual void abandon() {}
  [[nodiscard]] virtual bool is_abandoned() const { return false; }

  /// From now on `page`, which outlives the group, shows when this rank is inside a collective.
  void show_on(ProgressPage& page) { page_ = &page; }

  /// Keep the result for as long as this rank waits for others.
  [[nodiscard]] InCollective enter() const { return InCollective(page_); }
  [[nodiscard]] ProgressPage* page() const { return page_; }  // may be null

  /// Waits for this rank's device by polling `is_done`; `during` describes the work, for messages.
  /// A device that runs NCCL may itself wait for other ranks: the page then shows this rank as
  /// inside a collective until the wait is over.
  /// Blocks: until is_done() returns true. Errors: for such a device PeerError, as all_reduce();
  /// those of `is_done`.
  virtual void await_device(const std::string& during, const std::function<bool()>& is_done) const;

  /// The error to throw when a call that needs the other ranks, begun at `began`, has failed.
  /// `cause` is the library's message.
  /// Blocks: less than a second, to exchange reports with other ranks; no collective.
  [[nodiscard]] virtual PeerError explain_lost_peer(const std::string& during,
                                                    std::chrono::steady_clock::time_point began,
                                                    const std::string& cause) const;

  /// For messages between ranks outside of collectives, in this round; null for a single process.
  [[nodiscard]] virtual c10d::Store* store() const = 0;
  /// Whether rank 0 serves the store, as it does without a launcher: then it must exit last.
  [[nodiscard]] virtual bool rank_0_serves_store() const { return false; }

  /// For c10d's Reducer; null for a single process.
  [[nodiscard]] virtual c10::intrusive_ptr<c10d::ProcessGroup> process_group() const = 0;

 private:
  ProgressPage* page_ = nullptr;
};

/// Waits, as Group::await_device(), until the current stream of `device` has done its work; returns
/// at once for a CPU. Call it before the host reads numbers to which other ranks contribute.
void await_stream(const Group& group, const at::Device& device, const std::string& during);

/// The tensors of all ranks, by rank. They must have the same type and shape, except for the first
/// dimension, which may differ and be 0. All ranks call it. Errors: PeerError.
std::vector<at::Tensor> gather_rows(Group& group, const at::Tensor& rows);

/// A text of every rank, by rank, of any length. All ranks call it. Errors: PeerError.
std::vector<std::string> gather_texts(Group& group, const std::string& text);

}  // namespace ddp::worker
