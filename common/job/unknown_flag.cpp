#include "common/job/unknown_flag.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/job/job_keys.h"

namespace ddp {
namespace {

constexpr std::array kWorkerFlags{WorkerFlag{"check"},
                                  WorkerFlag{"as-rank", true},
                                  WorkerFlag{"init-method", true},
                                  WorkerFlag{"rank", true},
                                  WorkerFlag{"world-size", true},
                                  WorkerFlag{"ema", false, "export"},
                                  WorkerFlag{"script", true, "export"},
                                  WorkerFlag{"json", false, "inspect"},
                                  WorkerFlag{"top", true, "predict"},
                                  WorkerFlag{"confidence", true, "predict"},
                                  WorkerFlag{"iou", true, "predict"}};

/// Those that do not have the name of a key in launch.
constexpr std::array<std::string_view, 19> kLauncherFlags{"help",
                                                          "version",
                                                          "output",
                                                          "trust-checkpoint",
                                                          "dry-run",
                                                          "debug",
                                                          "no-auto-env",
                                                          "hosts",
                                                          "hostfile",
                                                          "ssh",
                                                          "token-stdin",
                                                          "shutdown-timeout",
                                                          "verbose",
                                                          "explain",
                                                          "completion",
                                                          "print-completion",
                                                          "man",
                                                          "schema",
                                                          "log-line-prefix-template"};

std::string spelled(std::string_view name, char from, char to) {
  std::string text(name);
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

}  // namespace

const WorkerFlag* find_worker_flag(std::string_view name) {
  const auto* const found = std::ranges::find(kWorkerFlags, name, &WorkerFlag::name);
  return found == kWorkerFlags.end() ? nullptr : found;
}

bool is_launcher_flag(std::string_view name) {
  return std::ranges::find(kLauncherFlags, spelled(name, '_', '-')) != kLauncherFlags.end() ||
         find_job_key("launch." + spelled(name, '-', '_')) != nullptr;
}

std::optional<std::string_view> key_of_unknown_flag(std::string_view name) {
  const std::string path = spelled(name, '-', '_');
  std::optional<std::string_view> found;
  for (const JobKey& key : job_keys()) {
    if (key.path == path) return key.path;
    if (leaf_of(key.path) != path || key.path.starts_with("launch.")) continue;
    if (found) return std::nullopt;
    found = key.path;
  }
  return found;
}

}  // namespace ddp
