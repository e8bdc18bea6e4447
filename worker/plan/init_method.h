// --init-method, --rank and --world-size: the words of torch.distributed for ranks that are started
// by hand. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/node/identity.h"

namespace ddp::worker {

struct InitMethod {
  std::optional<std::string> url;  // env:// or tcp://HOST:PORT, of rank 0
  std::optional<std::string> rank;
  std::optional<std::string> world_size;

  bool operator==(const InitMethod&) const = default;
};

/// `environment` with what was given laid over it. A rank of tcp:// without RANK and WORLD_SIZE in
/// the environment (or those of Slurm or MPI) must be told both.
/// Errors: UsageError with what to type: half of them, no rank at all, file:// and other schemes.
Environment with_init_method(const Environment& environment, const InitMethod& method);

}  // namespace ddp::worker
