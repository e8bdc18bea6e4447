// Ranks as threads of one process: a Gloo group over loopback, which meets in memory.
// Trap: c10d's flight recorder is one per process, and notes a new group without a lock: two ranks
// that do so at once end the process now and then. So it is off here.
#pragma once

#include <ATen/Parallel.h>

#include <torch/csrc/autograd/function.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "worker/dist/gloo_group.h"
#include "worker/dist/group.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {

inline std::unique_ptr<Group> make_rank(c10::intrusive_ptr<c10d::Store> store,
                                        int rank,
                                        int world_size,
                                        const Device& device = {}) {
  if (world_size == 1) return single_process_group();
  GlooOptions options;
  options.store = std::move(store);
  options.rank = rank;
  options.world_size = world_size;
  options.device = device;
  options.local_address = "127.0.0.1";
  options.join_timeout = std::chrono::seconds(20);
  options.collective_timeout = std::chrono::seconds(20);
  return make_gloo_group(options);
}

/// The gradients of what the function behind `y` was given, by that function alone and in this
/// thread. backward() computes them in the one thread that a process has for a device: on a GPU
/// ranks that are threads would wait there for each other for ever.
inline std::vector<at::Tensor> backward_here(const at::Tensor& y, const at::Tensor& dy) {
  const at::NoGradGuard no_grad;  // as the engine has it
  return (*y.grad_fn())(torch::autograd::variable_list{dy});
}

/// What `work(group)` gives on each of `world_size` ranks, by rank. Errors: the first one of the
/// lowest rank that fails; its group is gone by then, so that no other rank waits for it. On a GPU
/// they share it.
template <typename Work>
auto on_ranks(int world_size, const Work& work, const Device& device = {}) {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // read once, when the first group is made
  ::signal(SIGPIPE, SIG_IGN);                // as common/cli/streams does
  using Result = decltype(work(std::declval<Group&>()));
  std::vector<Result> results(static_cast<std::size_t>(world_size));
  std::vector<std::exception_ptr> errors(results.size());
  {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      threads.emplace_back([&, rank] {
        at::set_num_threads(1);
        const std::size_t slot = static_cast<std::size_t>(rank);
        try {
          const std::unique_ptr<Group> group = make_rank(store, rank, world_size, device);
          // Inside, so that the group ends as in a program that goes well: it closes its sockets.
          try {
            results[slot] = work(*group);
          } catch (const std::exception&) {
            errors[slot] = std::current_exception();
          }
        } catch (const std::exception&) {
          errors[slot] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return results;
}

}  // namespace ddp::worker
