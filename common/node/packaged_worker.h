// The worker in the package of pip that fits the torch of a Python environment. Each is built for
// one minor release of torch, as LibTorch's classes change from one to the next.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace ddp {

struct PackagedWorker {
  std::filesystem::path program;

  /// The directories of torch's libraries, for LD_LIBRARY_PATH, if torch is not beside the package,
  /// or if the package is reached by a link. Otherwise empty: the worker finds them by its own
  /// RPATH.
  std::string library_path;
};

/// Whether `self` is a program that pip has installed beside the package. It may be a link.
bool has_packaged_worker(const std::filesystem::path& self);

/// How long to wait for a Python that is asked where its torch is. Many ranks may start one at once
/// from a slow network disk.
inline constexpr std::chrono::seconds kPythonPatience(300);

/// `self` is a program that pip has installed in PREFIX/bin. The package ddp_worker is in the
/// site-packages of PREFIX. torch is beside it, or where the environment's Python finds it.
/// Blocks: at most `patience`. Errors: UsageError: no package there, no torch that is whole, a
/// release that no worker is built for. SystemError(kTimeout): a Python that does not answer.
PackagedWorker find_packaged_worker(const std::filesystem::path& self,
                                    std::chrono::seconds patience = kPythonPatience);

}  // namespace ddp
