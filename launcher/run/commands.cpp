#include "launcher/run/commands.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "common/error.h"
#include "common/exit_code.h"
#include "launcher/net/control_socket.h"
#include "launcher/os/scratch_dir.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string to_text(const json::value& value) {
  return value.is_string() ? std::string(value.as_string()) : json::serialize(value);
}

struct RunningJob {
  fs::path directory;
  json::object status;

  [[nodiscard]] std::string text(const char* member) const { return to_text(status.at(member)); }
};

std::optional<RunningJob> find_job(const fs::path& directory) {
  const std::optional<std::string> answer = ask(directory, "status");
  boost::system::error_code error;
  const json::value value = answer ? json::parse(*answer, error) : json::value();
  if (error || !value.is_object()) return std::nullopt;
  return RunningJob{directory, value.as_object()};
}

/// What agents leave that were killed together with their guard. Error files stay.
void tidy(const fs::path& directory) {
  std::error_code ignored;
  fs::remove(directory / ControlSocket::kName, ignored);
  fs::remove(directory, ignored);  // fails, as it should, when something is in it
}

std::vector<RunningJob> find_jobs(const Environment& environment) {
  std::vector<RunningJob> jobs;
  std::error_code ignored;
  const fs::path base = scratch_base(find_variable(environment, "XDG_RUNTIME_DIR"));
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    if (!fs::exists(entry.path() / ControlSocket::kName, ignored)) continue;
    if (auto job = find_job(entry.path())) {
      jobs.push_back(std::move(*job));
    } else if (is_abandoned(entry.path())) {
      tidy(entry.path());
    } else {
      std::cerr << "ddp-launch: run " << entry.path().filename().string()
                << " does not answer: its agent is stopped, or was killed\n";
    }
  }
  return jobs;
}

constexpr std::size_t kShortestPrefix = 4;  // of a random id; less may be a slip

bool is_meant(const RunningJob& job, const std::string& run) {
  const bool is_prefix = run.size() >= kShortestPrefix && job.text("run").starts_with(run);
  return is_prefix || job.text("rdzv_id") == run || job.text("pid") == run ||
         fs::path(job.text("run_dir")).filename() == run;
}

std::string headline(const RunningJob& job) {
  char uptime[32];
  std::snprintf(uptime, sizeof uptime, "%.0f s", job.status.at("uptime").to_number<double>());
  return job.text("run").substr(0, 8) + "  pid " + job.text("pid") + "  " + job.text("program") +
         "  round " + job.text("round") + "  up " + uptime + "  " + job.text("endpoint") +
         (job.text("run_dir").empty() ? "" : "  " + job.text("run_dir"));
}

std::string list(const std::vector<RunningJob>& jobs) {
  std::string text;
  for (const RunningJob& job : jobs)
    text += "\n  " + headline(job);
  return text;
}

RunningJob choose(std::vector<RunningJob> jobs,
                  const std::string& run,
                  const std::string& command) {
  if (!run.empty()) std::erase_if(jobs, [&](const RunningJob& job) { return !is_meant(job, run); });
  if (jobs.size() == 1) return std::move(jobs.front());
  if (jobs.empty()) {
    throw UsageError(command + (run.empty() ? "" : " " + run) +
                     ": no such job of yours runs on this node. ddp-launch status lists them.");
  }
  throw UsageError(command + (run.empty() ? "" : " " + run) + ": " + std::to_string(jobs.size()) +
                   " jobs are meant; name one by its id or pid:" + list(jobs));
}

std::string member(const json::object& object, const char* name) {
  const json::value* const value = object.if_contains(name);
  return value == nullptr ? "" : to_text(*value);
}

std::string describe(const RunningJob& job) {
  std::string text = headline(job) + "\n";
  for (const json::value& entry : job.status.at("workers").as_array()) {
    const json::object& worker = entry.as_object();
    text += "  rank " + member(worker, "rank") + "  pid " + member(worker, "pid") + "  ";
    const std::string ended = member(worker, "ended");
    text += ended.empty() ? "state " + member(worker, "state") : ended;
    if (worker.contains("phase")) {
      text += "  " + member(worker, "phase") + "  epoch " + member(worker, "epoch") + "  step " +
              member(worker, "step") + "/" + member(worker, "steps_total") + "  loss " +
              member(worker, "loss") + "  checkpoint " + member(worker, "checkpoint_step");
    }
    text += "\n";
  }
  return text;
}

std::string describe_lines(const json::object& answer) {
  std::string text;
  for (const json::value& entry : answer.at("workers").as_array()) {
    const json::object& worker = entry.as_object();
    for (const char* const stream : {"stdout", "stderr"}) {
      for (const json::value& line : worker.at(stream).as_array()) {
        text += "[" + member(worker, "rank") + " " + stream + "] " + std::string(line.as_string()) +
                "\n";
      }
    }
  }
  return text;
}

}  // namespace

int run_command(const Options& options, const Environment& environment) {
  std::vector<RunningJob> jobs = find_jobs(environment);
  if (options.command == "status" && options.command_run.empty()) {
    for (const RunningJob& job : jobs)
      std::cout << describe(job);
    if (jobs.empty()) std::cout << "no job of yours runs on this node\n";
    return exit_code::kOk;
  }
  const RunningJob job = choose(std::move(jobs), options.command_run, options.command);
  if (options.command == "status") {
    std::cout << describe(job);
    return exit_code::kOk;
  }
  const std::optional<std::string> answer = ask(job.directory, options.command);
  if (!answer) throw SystemError("the agent of " + headline(job) + " does not answer any more.");
  std::cout << (options.command == "logs" ? describe_lines(json::parse(*answer).as_object())
                                          : *answer + "\n");
  return exit_code::kOk;
}

}  // namespace ddp::launcher
