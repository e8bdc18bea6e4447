// Gloo, whose collectives also end when a peer dies in the middle of a transfer.
// Gloo reports the end of a connection to the transfers that wait on it, but not to the one that it
// has partly read or written (its transport/tcp/pair.cc, signalException). A rank whose peer was
// killed there would wait until the time-out on a connection that is already closed.
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
/// gone, what is under way ends within two seconds with c10::DistNetworkError. Refuses tensors of a
/// device on other streams than its default one (require_default_stream).
class WatchedGloo : public c10d::ProcessGroupGloo {
 public:
  /// Blocks: until all ranks are connected. Errors: those of Gloo.
  WatchedGloo(const c10::intrusive_ptr<c10d::Store>& store,
              int rank,
              int size,
              const c10::intrusive_ptr<Options>& options);
  ~WatchedGloo() override;

  /// From now on sums, broadcasts and gathers of tensors on the CPU go through memory that the
  /// ranks share, if all are on one node. All ranks call it. Returns why they cannot; empty: they
  /// do. Errors: those of Gloo.
  std::string share_memory();

  /// From now on peers may leave without an error.
  void stop_watching();

  /// Whether a connection to a peer has been gone for kLossWait, while peers may not leave.
  [[nodiscard]] bool has_lost_peer() const;

  /// Ends the connections, for us and for our peers.
  void disconnect();

  /// Whether a thread of Gloo still waits for a dead peer: the destructor would wait for that
  /// thread.
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

 private:
  WatchedGloo(const std::set<Connection>& others,
              const c10::intrusive_ptr<c10d::Store>& store,
              int rank,
              int size,
              const c10::intrusive_ptr<Options>& options);

  c10::intrusive_ptr<c10d::Work> share_out(SharedSums::Call call, bool is_async);
  [[nodiscard]] std::chrono::milliseconds time_for(std::chrono::milliseconds wanted);

  std::set<Connection> connections_;
  std::unique_ptr<SharedSums> sums_;  // null: everything goes by Gloo
  std::unique_ptr<PeerWatch> watch_;  // null where Gloo's connections are not known
};

/// Gloo copies a result back to a device on a stream of its own. The thread of Gloo that ends the
/// work makes its own current stream wait for that copy (ProcessGroupGloo.cpp, AsyncWork::execute),
/// which is the device's default one: another stream would read too early, and nobody says so.
/// Errors: std::logic_error where another stream of a tensor's device is current.
void require_default_stream(const std::vector<at::Tensor>& tensors);

}  // namespace ddp::worker
