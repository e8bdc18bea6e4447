// The messages between the agent and the template that is copied for each rank (os/rank_template),
// and which variables of the environment the template may have. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/node/environment.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/start/job_spec.h"

namespace ddp::launcher {

/// Whether `module` can be given to --preload: names with dots between, as torch.nn.
bool is_module_name(std::string_view module);

/// Stands for the agent id in the environment of a warm template. Each job's fork overwrites it, so
/// /proc shows to which agent each process below it belongs.
inline constexpr std::string_view kNoAgentId = "00000000000000000000000000000000";

/// What a template serves: one job of a Python program (job), every job of a Python program that
/// its user starts while it is warm (warm), or one job of ddp-worker (worker).
enum class TemplateUse { job, warm, worker };

/// The environment that the template has when it imports: a rank's, without the variables that name
/// the rank or the round. A warm template's also lacks those of one job. That of ddp-worker's
/// template also lacks the variables of a rank's GPU, which nothing reads before main().
Environment template_environment(const Environment& rank, TemplateUse use);

/// Why the ranks of this node cannot be copies of one process. Nothing: they can be.
std::optional<std::string> find_preload_obstacle(const JobSpec& spec);

/// Whether the ranks of this node are to be copies of one ddp-worker (launch.warm_start).
bool wants_warm_start(const JobSpec& spec);

/// Whether this job uses a template, and its name in messages.
inline bool has_template(const JobSpec& spec) {
  return spec.warm_start || !spec.preload.empty();
}
inline std::string template_name(const JobSpec& spec) {
  return spec.warm_start ? "warm start" : "preload";
}

/// Tells ddp-worker to serve as a template. Its value is the number of the socket, padded by
/// kTemplateBlanks blanks, so that /proc/PID/environ has room for a rank's longer environment.
inline constexpr std::string_view kTemplateSocket = "DDP_TEMPLATE_FD";
/// The template's RANK. No number, so that a ddp-worker without templates refuses to start.
inline constexpr std::string_view kTemplateRank = "template";
inline constexpr std::size_t kTemplateBlanks = 4096;

/// If the interpreter is itself a script (`program` is its text): a variable of one rank that it
/// names, such as RANK. It must then run again for each rank. Nothing: it names none, or is no
/// script.
std::optional<std::string> find_rank_variable(std::string_view program);

/// Why a rank cannot be a copy of a template with the environment `base`: a variable that an import
/// may have read has another value there. Nothing: it can be. `wanted`: the rank's own
/// template_environment().
std::optional<std::string> find_other_variable(const Environment& base, const Environment& wanted);

/// The socket at which a warm template listens. All empty: the template does not stay warm.
struct WarmSocket {
  std::string path;              // once the template is ready
  std::string temporary_path;    // until then
  std::chrono::seconds idle{0};  // how long the template waits for another job
  std::string key;               // what a job must have in common with the template
};

/// The agent's first request: import `modules`. `rank`: a rank's environment; `base`: the
/// template's.
std::string import_request(const std::vector<std::string>& modules,
                           const Environment& rank,
                           const Environment& base,
                           const WarmSocket& socket = {});

/// A rank's arguments up to the script or module.
std::vector<std::string> up_to_script(std::vector<std::string> arguments);

/// The request to a warm template: serve the job of this agent, whose ranks have these arguments.
std::string job_request(const std::string& key,
                        const std::string& agent_id,
                        const std::vector<std::string>& arguments);

/// What a job must have in common with a warm template: all that the template's imports could see.
/// `arguments`: a rank's; those of the script do not count. `base`: the template's environment.
/// `state`: what a process inherits besides (inherited_state() of os/warm_pool).
std::string warm_key(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& modules,
                     const Environment& base,
                     const std::string& state);

/// What the line of `state` with the path of the working directory begins with.
inline constexpr std::string_view kWorkingDirectory = "working directory: ";

/// How `theirs`, the key of a warm template for the same script, differs from `ours`, in words:
/// "other variables: PATH". Nothing: the template is for another script, or for one of the same
/// relative path in another directory.
std::optional<std::string> find_other_part(std::string_view theirs, std::string_view ours);

/// A rank to be copied.
struct CopyPlan {
  int parent = 0;           // our pid
  std::string descriptors;  // those sent after stdout, stderr: p progress page, l lock, c cgroup
  int page_fd = -1;         // the number of the page's descriptor in the rank
  int lock_fd = -1;         // the same, of the lock
  std::vector<int> cpus;    // that the rank may use; empty: those of the template
  std::vector<std::string> arguments;
  Environment environment;
};
std::string copy_request(const CopyPlan& plan);

/// A message of the template, before it is copied.
struct TemplateMessage {
  enum class Kind { chosen, importing, ready, unfit, ended };
  Kind kind = Kind::unfit;
  // chosen: modules; importing: a module; unfit: why; ready: a pid, or empty; ended: its last line.
  std::string text;
};
TemplateMessage read_template_message(std::string_view packet);

/// How a copy has ended, by the answer of its parent, a warm template's fork: "runs", or "ended
/// CODE STATUS" with the numbers of waitid(2). Nothing: the copy runs.
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

/// The first message of a copy.
struct CopyAnswer {
  int pid = 0;  // 0: there is no copy, and `problem` says why
  bool is_in_cgroup = false;
  std::string problem;
};
CopyAnswer read_copy_answer(std::string_view packet);

}  // namespace ddp::launcher
