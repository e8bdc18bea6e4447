// Which CPUs each worker is bound to, by torchrun's four modes, without the numactl program. Pure:
// a topology in, CPU sets out. Memory needs no policy of its own: Linux takes a page from the NUMA
// node of the CPU that touches it first, and the CPUs are bound (torchrun sets no policy either).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

/// One usable CPU.
struct CpuPlace {
  int cpu = 0;
  int node = 0;     // NUMA node
  int package = 0;  // socket
  int core = 0;     // lowest CPU of the same physical core
  int cache = 0;    // lowest CPU that shares the last level of cache: a core complex
};

struct Bindings {
  std::vector<std::vector<int>> cpus;  // by local rank, ascending
  std::string note;                    // how workers were bound; empty: by GPU
};

/// `mode` is node, socket, exclusive or core-complex; `places` ascending by CPU; `gpu_nodes` the
/// NUMA node of each visible GPU, -1 for not known.
/// Worker i belongs to the node of GPU i. node: all CPUs of that node. socket: all CPUs of all
/// nodes of its socket. exclusive: a share of the node's physical cores, divided among its GPUs,
/// the first ones get what is left over. core-complex: the CPUs of one last-level cache, larger
/// ones first, in turn. With too few GPUs, or when their nodes are not known, the workers are
/// spread over the nodes, i over node i * nodes / workers, and take the GPUs' place in the rules
/// above. Errors: UsageError when a worker would get no CPU. Source: torch/numa/binding.py of
/// torch 2.11 to 2.15.
Bindings bind_workers(const std::string& mode,
                      const std::vector<CpuPlace>& places,
                      int workers,
                      const std::vector<int>& gpu_nodes);

/// "0-3,8" to numbers, as in /sys; what cannot be read is left out.
std::vector<int> read_cpu_list(std::string_view text);

}  // namespace ddp::launcher
