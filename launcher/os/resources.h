// What this node has: CPUs that we may use, GPUs that are there; and its name.
#pragma once

#include <string>

namespace ddp::launcher {

/// CPUs of the affinity mask, at least 1.
int count_cpus();

/// Device files /dev/nvidiaN.
int count_gpus();

/// The node's host name, as reports show it.
std::string host_name();

/// `bytes` random bytes as hexadecimal text. Errors: SystemError.
std::string random_hex(int bytes);

}  // namespace ddp::launcher
