#include "launcher/run/running_jobs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "launcher/net/control_socket.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kLongestShown = 200;  // of a name or a short answer

/// Removes what an agent leaves that was killed together with its guard: a directory with nothing
/// but a dead socket. Error files stay.
void tidy(const PrivateDir& place, const PrivateDir& directory) {
  const std::string name(ControlSocket::kName);
  ::unlinkat(directory.fd(), name.c_str(), 0);
  // Fails, as intended, if the directory is not empty.
  ::unlinkat(place.fd(), directory.path().filename().c_str(), AT_REMOVEDIR);
}

void warn(const std::string& text) {
  std::cerr << "ddp-launch: " << text << "\n";
}

constexpr std::size_t kShortestPrefix = 4;  // of a random id; a shorter one may be a typo

/// Whether `typed` is the path of `run_dir`: as printed, as a shell completes it, or through a link
/// such as `latest`.
bool is_path_of(const std::string& run_dir, const std::string& typed) {
  if (run_dir.empty()) return false;
  std::filesystem::path path = std::filesystem::absolute(typed).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::error_code ignored;
  return path == run_dir || std::filesystem::equivalent(path, run_dir, ignored);
}

/// The logs directory of a run that has ended; empty: none. A bare name means runs/NAME.
std::string kept_logs(const std::string& run) {
  if (run.empty()) return "";
  std::error_code ignored;
  for (const std::filesystem::path& directory :
       {std::filesystem::path(run), std::filesystem::path("runs") / run}) {
    if (std::filesystem::is_directory(directory / "logs", ignored))
      return plain_line((directory / "logs").string(), kLongestShown);
  }
  return "";
}

std::string list(const std::vector<RunningJob>& jobs) {
  std::string text;
  for (const RunningJob& job : jobs)
    text += "\n  " + headline(job.status);
  return text;
}

}  // namespace

std::vector<RunningJob> find_jobs(const Environment& environment, bool warns) {
  // Open only directories of our own, through descriptors: in /tmp anyone may have put anything.
  std::vector<RunningJob> jobs;
  std::string warning;
  const std::vector<PrivateDir> places = find_scratch_places(environment, warning);
  if (warns && !warning.empty()) warn(warning);
  for (const PrivateDir& place : places) {
    for (const std::string& name : place.names()) {
      std::optional<PrivateDir> directory = place.enter(name);
      if (!directory || !has_control_socket(*directory)) continue;
      const std::optional<std::string> answer = ask(*directory, "status");
      std::optional<JobAnswer> status = answer ? read_answer(*answer) : std::nullopt;
      const std::string agent = "the agent " + plain_line(name, kLongestShown);
      if (status) {
        jobs.push_back(RunningJob{std::move(*directory), std::move(*status), *answer});
      } else if (answer && warns) {
        warn(agent + " does not answer properly: it is of another version");
      } else if (!answer && is_abandoned(*directory)) {
        tidy(place, *directory);
      } else if (!answer && warns) {
        warn(agent + " does not answer: it is stopped (kill -CONT lets it go on), or was killed");
      }
    }
  }
  return jobs;
}

bool matches_name(const JobAnswer& job, const std::string& name) {
  const bool is_prefix = name.size() >= kShortestPrefix && job.run_id.starts_with(name);
  return is_prefix || job.user_run_id == name || job.pid == name || is_path_of(job.run_dir, name) ||
         std::filesystem::path(job.run_dir).filename() == name;
}

std::vector<RunningJob> choose(std::vector<RunningJob> jobs,
                               const std::string& name,
                               const std::string& verb) {
  if (!name.empty()) {
    std::erase_if(jobs, [&](const RunningJob& job) { return !matches_name(job.status, name); });
  }
  const std::string wanted = verb + (name.empty() ? "" : " " + name);
  if (jobs.empty()) {
    if (const std::string logs = verb == "logs" ? kept_logs(name) : ""; !logs.empty())
      throw UsageError(wanted + ": that job does not run any more. Its log files are in " + logs +
                       ".");
    throw UsageError(wanted +
                     ": no such job of yours runs on this node. ddp-launch status lists them.");
  }
  const bool is_one = std::ranges::all_of(
      jobs, [&](const RunningJob& job) { return job.status.run_id == jobs.front().status.run_id; });
  if (is_one) return jobs;
  throw UsageError(wanted + ": " + std::to_string(jobs.size()) +
                   " jobs are meant; name one by its id or pid:" + list(jobs));
}

}  // namespace ddp::launcher
