// What the agent and the template of Python ranks (os/rank_template) tell each other, and which
// variables the template may have. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/node/identity.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// Whether `module` can be given to --preload: names with dots between, as torch.nn.
bool is_module_name(std::string_view module);

/// Stands for the agent id in the environment of a warm template. Each job's fork overwrites it, so
/// /proc shows to which agent each process below it belongs.
inline constexpr std::string_view kNoAgentId = "00000000000000000000000000000000";

/// What a template serves: one job of a Python program, those of its user that come while it is
/// warm, or one job of ddp-worker.
enum class TemplateUse { job, warm, worker };

/// A rank's environment without the variables that say which rank of which round it is; for a warm
/// one without those of one job; for ddp-worker without those of one rank's GPU, which nothing
/// reads before main(). It is what the template has when it imports.
Environment template_environment(const Environment& rank, TemplateUse use);

/// Why the ranks of this node cannot be copies of one process. Nothing: they can be.
std::optional<std::string> find_preload_obstacle(const JobSpec& spec);

/// Whether the ranks of this node are to be copies of one ddp-worker (launch.warm_start).
bool wants_warm_start(const JobSpec& spec);

/// Whether there is to be a template, and its name in messages.
inline bool has_template(const JobSpec& spec) {
  return spec.warm_start || !spec.preload.empty();
}
inline std::string template_name(const JobSpec& spec) {
  return spec.warm_start ? "warm start" : "preload";
}

/// Tells ddp-worker to serve as a template. kTemplateSocket holds the number of its socket, padded
/// with kTemplateBlanks blanks: room in /proc/PID/environ for the longer environment of a rank. Its
/// RANK, kTemplateRank, is not a number, so a ddp-worker without templates refuses to start.
inline constexpr std::string_view kTemplateSocket = "DDP_TEMPLATE_FD";
inline constexpr std::string_view kTemplateRank = "template";
inline constexpr std::size_t kTemplateBlanks = 4096;

/// If the interpreter is itself a script (`program` is its text): a variable of one rank that it
/// names, such as RANK. It must then run anew for each rank. Nothing: it names none, or is no script.
std::optional<std::string> find_rank_variable(std::string_view program);

/// Why that rank cannot be a copy of a template with the environment `base`: a variable that an
/// import may have read has another value there. Nothing: it can be. `wanted`: the environment of
/// the rank's own template.
std::optional<std::string> find_other_variable(const Environment& base, const Environment& wanted);

/// Where a template listens that stays warm.
struct WarmPlace {
  std::string path;      // of its socket, once it is ready
  std::string own_path;  // until then
  std::chrono::seconds idle{0};
  std::string key;  // what a job must have in common with it
};

/// The agent's first request: import `modules`. `rank`: a rank's environment; `base`: the
/// template's.
std::string import_request(const std::vector<std::string>& modules,
                           const Environment& rank,
                           const Environment& base,
                           const WarmPlace& place = {});

/// A rank's arguments up to the script or module.
std::vector<std::string> up_to_script(std::vector<std::string> arguments);

/// To a warm template: serve the job of that agent, with these arguments of a rank.
std::string job_request(const std::string& key,
                        const std::string& agent_id,
                        const std::vector<std::string>& arguments);

/// What a job must have in common with a warm template: all that its imports could see.
/// `arguments`: a rank's, those of the script do not count; `base`: the environment of the
/// template; `state`: what a process inherits otherwise.
std::string warm_key(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& modules,
                     const Environment& base,
                     const std::string& state);

/// How `theirs`, the key of a warm template for the same script, differs from `ours`, in words:
/// "other variables: PATH". Nothing: the template is for another script.
std::optional<std::string> find_other_part(std::string_view theirs, std::string_view ours);

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

/// What the template of a job tells of a copy: "runs", "ended CODE STATUS" as waitid(2) gives them.
/// Nothing: it runs.
std::optional<ExitStatus> read_exit(std::string_view packet);

/// A warm template, as it describes itself.
struct WarmTemplate {
  int pid = 0;
  std::int64_t begin = 0;  // seconds since 1970
  int idle_left = 0;       // seconds
  int jobs = 0;            // that it has served
  std::string python;
  std::string modules;
  std::string script;
};
std::optional<WarmTemplate> read_warm_template(std::string_view packet);

/// What a copy tells.
struct CopyAnswer {
  int pid = 0;  // 0: there is none
  bool is_in_cgroup = false;
  std::string problem;
};
CopyAnswer read_copy_answer(std::string_view packet);

}  // namespace ddp::launcher
