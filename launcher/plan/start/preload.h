// What the agent and the template of Python ranks (os/python_template) tell each other, and which
// variables the template may have. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/node/identity.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// Whether `module` can be given to --preload: names with dots between, as torch.nn.
bool is_module_name(std::string_view module);

/// A rank's environment without the variables that say which rank of which round it is: what the
/// template has when it imports.
Environment template_environment(const Environment& rank);

/// Why the ranks of this node cannot be copies of one process. Nothing: they can be.
std::optional<std::string> find_preload_obstacle(const JobSpec& spec);

/// The variable of a rank that a script in the place of the interpreter names: each rank is to have
/// it read. Nothing: none, or `program` is no script.
std::optional<std::string> find_rank_variable(std::string_view program);

/// Why that rank cannot be a copy of a template with the environment `base`: a variable that an
/// import may have read has another value there. Nothing: it can be.
std::optional<std::string> find_other_variable(const Environment& base, const Environment& rank);

/// The agent's first request: import `modules`. `rank`: a rank's environment.
std::string import_request(const std::vector<std::string>& modules, const Environment& rank);

/// A rank to be copied.
struct CopyPlan {
  int parent = 0;           // our pid
  std::string descriptors;  // sent after its streams: p progress page, l lock, c cgroup
  int page_fd = -1;         // the number that the page has in the rank
  int lock_fd = -1;         // and the lock
  std::vector<int> cpus;    // that it may use; empty: as the template
  std::vector<std::string> arguments;
  Environment environment;
};
std::string copy_request(const CopyPlan& plan);

/// What the template tells.
struct TemplateMessage {
  enum class Kind { chosen, importing, ready, unfit, ended };
  Kind kind = Kind::unfit;
  std::string text;  // modules, a module, why it is unfit, or its last line
};
TemplateMessage read_template_message(std::string_view packet);

/// What a copy tells.
struct CopyAnswer {
  int pid = 0;  // 0: there is none
  bool is_in_cgroup = false;
  std::string problem;
};
CopyAnswer read_copy_answer(std::string_view packet);

}  // namespace ddp::launcher
