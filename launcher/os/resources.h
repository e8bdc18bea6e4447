// What this node has: CPUs that we may use, GPUs that are there, descriptors; and its name.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/gpus.h"

namespace ddp::launcher {

/// CPUs of the affinity mask that the CPU quota of our cgroups (v1 or v2) lets us use, at least 1.
int count_cpus();

/// Those with a device file /dev/nvidiaN, as the driver's files describe them, by PCI address.
std::vector<Gpu> find_gpus();

/// Descriptors that this process has open.
int count_descriptors();

/// Raises the limit of descriptors to the hard one when it is below `needed`; workers inherit it.
/// Returns the limit.
int raise_descriptor_limit(int needed);

/// The node's host name, as reports show it.
std::string host_name();

/// `bytes` random bytes as hexadecimal text. Errors: SystemError.
std::string random_hex(int bytes);

}  // namespace ddp::launcher
