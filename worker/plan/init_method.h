// --init-method, --rank and --world-size, as in torch.distributed: for ranks that a user starts by
// hand. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/node/environment.h"

namespace ddp::worker {

struct InitMethod {
  std::optional<std::string> url;  // env://, or tcp://HOST:PORT of rank 0
  std::optional<std::string> rank;
  std::optional<std::string> world_size;

  bool operator==(const InitMethod&) const = default;
};

/// Returns `environment` with the variables that `method` sets. With tcp://, a rank needs --rank
/// and --world-size unless the environment has RANK and WORLD_SIZE (or Slurm's or MPI's variables).
/// Errors: UsageError with what to type: only one of the two, no rank at all, file:// and other
/// schemes.
Environment with_init_method(const Environment& environment, const InitMethod& method);

}  // namespace ddp::worker
