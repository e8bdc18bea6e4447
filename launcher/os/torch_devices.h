// How many devices the torch of a Python sees: for the kinds that this program cannot count itself.
#pragma once

#include <map>
#include <string>

namespace ddp::launcher {

struct TorchDevices {
  int count = 0;
  std::string problem = {};  // why there is none: what was found, and what to do; no period
};

/// Asks `python` for torch.KIND.device_count(), as torchrun does for --nproc-per-node. `kind`:
/// "xpu", or "cuda", by which torch means AMD's GPUs, too. `python` is a path or a name that is
/// searched on PATH; `variables` are added to our environment. Blocks: as long as the import of
/// torch takes, at most a minute. Errors: SystemError: no process can be made.
TorchDevices ask_torch(const std::string& python,
                       const std::string& kind,
                       const std::map<std::string, std::string>& variables);

}  // namespace ddp::launcher
