// Suggestions for an unknown flag: one of the other program, or a key of the job file. The lists
// are compared with the programs' own by their tests. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace ddp {

/// A flag that ddp-worker has and ddp-launch has not.
struct WorkerFlag {
  std::string_view name;
  bool takes_value = false;
  std::string_view verb = {};  // that takes it; empty: a training
};

/// Null: ddp-worker has none of that name either.
const WorkerFlag* find_worker_flag(std::string_view name);

/// Whether ddp-launch has a flag of that name, with dashes or underscores.
bool is_launcher_flag(std::string_view name);

/// The key of training that `name` stands for: `epochs` for train.epochs. Nothing: none, or
/// several.
std::optional<std::string_view> key_of_unknown_flag(std::string_view name);

}  // namespace ddp
