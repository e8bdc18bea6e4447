// Gloo whose collectives also end when a peer dies in the middle of a transfer.
// Gloo reports a closed connection to the transfers that wait for it, but not to one that it has
// partly read or written (transport/tcp/pair.cc, signalException). A rank whose peer was killed at
// that moment would wait until the time-out.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <memory>
#include <string>
#include <vector>

#include "worker/dist/connections.h"
#include "worker/dist/shared_sums.h"

namespace ddp::worker {

class PeerWatch;

/// Watches the collectives that this project and c10d's Reducer use: once a connection to a peer is
/// lost, those in progress end within two seconds with c10::DistNetworkError. Refuses tensors of a
/// device on any stream but its default one (dist/default_stream).
class WatchedGloo : public c10d::ProcessGroupGloo {
 public:
  /// Blocks: until all ranks are connected. Errors: those of Gloo.
  WatchedGloo(const c10::intrusive_ptr<c10d::Store>& store,
              int rank,
              int size,
              const c10::intrusive_ptr<Options>& options);
  ~WatchedGloo() override;

  /// From now on sums of CPU tensors go through shared memory inside of each node, and by Gloo
  /// between the first ranks of the nodes. If there is one node, broadcasts and gathers go through
  /// its memory, too. All ranks call it. Returns why that is not possible; empty: it is. Errors:
  /// those of Gloo.
  std::string share_memory();
  /// The same with a text that is equal on ranks that can share memory, of at most 255 bytes.
  std::string share_memory(const std::string& node);

  /// From now on peers may exit without an error.
  void stop_watching();

  /// Whether a connection to a peer has been lost for kLossWait. False after stop_watching().
  [[nodiscard]] bool has_lost_peer() const;

  /// Closes the connections, so that the peers notice it, too.
  void disconnect();

  /// Whether a thread of Gloo still waits for a dead peer: then the destructor would hang.
  [[nodiscard]] bool has_stuck_work() const;

  using Tensors = std::vector<at::Tensor>;
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs,
                                           Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  /// Memory for c10d's Reducer, whose sums are then not copied (SharedSums::allocate).
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

 private:
  WatchedGloo(const std::set<Connection>& others,
              const c10::intrusive_ptr<c10d::Store>& store,
              int rank,
              int size,
              const c10::intrusive_ptr<Options>& options);

  std::vector<std::string> gather(const std::string& own);
  void exchange(const at::Tensor& sum, std::chrono::milliseconds timeout);
  c10::intrusive_ptr<c10d::Work> run_shared(const char* name, SharedSums::Call call, bool is_async);
  [[nodiscard]] std::chrono::milliseconds timeout_for(std::chrono::milliseconds wanted);

  c10::intrusive_ptr<c10d::Store> c10d_store_;
  std::set<Connection> connections_;
  bool on_one_node_ = true;
  // The group of the nodes' first ranks; null on other ranks, and where there is one node.
  c10::intrusive_ptr<WatchedGloo> first_ranks_;
  std::unique_ptr<SharedSums> sums_;  // null: Gloo does everything
  std::unique_ptr<PeerWatch> watch_;  // null if Gloo's connections are not known
};

}  // namespace ddp::worker
