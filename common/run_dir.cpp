#include "common/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/files.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kMaxRuns = 1000000;
constexpr const char* kLockName = ".lock";

// An exclusive lock that dies with its holder (flock(2)), or -1 when another process lives in the
// directory.
int try_lock(const fs::path& directory) {
  const fs::path path = directory / kLockName;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return -1;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

struct OldRun {
  bool finished = false;
  std::int64_t batch = 0;
};

// What result.json says of an earlier run; nothing when it is missing or no JSON of ours.
std::optional<OldRun> read_result(const fs::path& directory) {
  const std::optional<std::string> text = read_file(directory / "result.json");
  if (!text) return {};
  boost::system::error_code error;
  const json::value value = json::parse(*text, error);
  if (error || !value.is_object()) return {};
  const json::object& object = value.as_object();
  OldRun run;
  if (const json::value* const state = object.if_contains("state")) {
    run.finished = state->is_string() && state->as_string() == "finished";
  }
  if (const json::value* const batch = object.if_contains("batch")) {
    if (batch->is_int64()) run.batch = batch->as_int64();
  }
  return run;
}

// True when the run in `directory` did not finish and was the same job with the same whole batch.
bool is_unfinished_same_job(const fs::path& directory,
                            const JobValues& job,
                            std::int64_t batch,
                            std::string& why_not) {
  const std::optional<OldRun> old = read_result(directory);
  if (!old || old->finished) return false;
  try {
    const YamlDocument document = read_yaml_file(directory / "job.yaml");
    const JobValues before = resolve_job(&document, {});
    const TextMap ours = job_identity(job, true);
    for (const auto& [path, value] : job_identity(before, true)) {
      if (ours.at(path) == value) continue;
      why_not = path + " was " + value;
      return false;
    }
  } catch (const UsageError&) {
    why_not = "its job.yaml cannot be read";  // written by another version, or by hand
    return false;
  }
  if (old->batch == batch) return true;
  why_not = "the whole batch was " + std::to_string(old->batch);
  return false;
}

fs::path numbered(const fs::path& base, int number) {
  return number == 1 ? base : fs::path(base.string() + std::to_string(number));
}

// <output>/latest, replaced by rename so that a reader always finds one of the two.
void point_latest(const fs::path& directory) {
  const fs::path link = directory.parent_path() / "latest";
  const fs::path temporary = directory.parent_path() / (".latest-" + std::to_string(::getpid()));
  std::error_code ignored;  // a file system without links: the directories are there all the same
  fs::remove(temporary, ignored);
  fs::create_symlink(directory.filename(), temporary, ignored);
  fs::rename(temporary, link, ignored);
}

}  // namespace

RunDir RunDir::choose(const JobValues& job, int world_size, const std::string& command) {
  const std::int64_t batch = plan_batch(job, world_size).whole;
  const fs::path output = fs::absolute(job.text("output")).lexically_normal();
  std::error_code error;
  fs::create_directories(output, error);
  if (error) {
    throw SystemError("cannot make the output directory, " + output.string() + ": " +
                      error.message() + ". Set output= to a directory that can be written.");
  }
  const fs::path base = output / job.text("name");
  const bool may_resume = job.text("checkpoint.resume") == "auto";

  int last = 0;  // the newest run of this name
  while (last < kMaxRuns && fs::exists(numbered(base, last + 1), error))
    ++last;
  std::string why_not;
  std::optional<RunDir> run;
  if (last > 0 && may_resume) {
    const fs::path newest = numbered(base, last);
    const int lock = try_lock(newest);
    RunDir candidate(newest, lock);
    if (lock < 0) {
      why_not = "it is still running";
    } else if (is_unfinished_same_job(newest, job, batch, why_not)) {
      run = std::move(candidate);
      run->continues_ = true;
      run->notice_ = "continues the unfinished run in " + newest.string();
    }
  }
  for (int number = last + 1; !run && number < kMaxRuns; ++number) {
    const fs::path path = numbered(base, number);
    if (::mkdir(path.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // another job took it just now
      throw SystemError(system_message("mkdir", path.string(), errno) +
                        ". Set output= to a directory that can be written.");
    }
    run = RunDir(path, check(try_lock(path), "flock", path.string()));
    run->notice_ = "new run directory " + path.string();
    if (!why_not.empty())
      run->notice_ += " (" + numbered(base, last).string() + " is not continued: " + why_not + ")";
  }
  if (!run) throw SystemError("no free run directory for " + base.string() + ". Remove old runs.");

  replace_file(run->path_ / "job.yaml", to_yaml(job));
  replace_file(run->path_ / "command.txt", command + "\n");
  replace_file(run->path_ / "result.json",
               "{\"state\":\"running\",\"batch\":" + std::to_string(batch) + ",\"world_size\":" +
                   std::to_string(world_size) + ",\"pid\":" + std::to_string(::getpid()) + "}\n");
  point_latest(run->path_);
  return std::move(*run);
}

RunDir::RunDir(RunDir&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      continues_(other.continues_),
      notice_(std::move(other.notice_)) {}

RunDir& RunDir::operator=(RunDir&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(continues_, other.continues_);
  std::swap(notice_, other.notice_);
  return *this;
}

RunDir::~RunDir() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

std::string state_of(int exit_code) {
  if (exit_code == exit_code::kOk) return "finished";
  const bool by_user =
      exit_code == exit_code::kStoppedAfterCheckpoint || exit_code == exit_code::of_signal(2);
  return by_user ? "stopped" : "failed";
}

void write_result(const fs::path& run_dir, int exit_code, const std::string& members) {
  // Batch and world size stay: they decide whether a later start continues this run.
  const std::optional<OldRun> old = read_result(run_dir);
  std::string text =
      "{\"state\":\"" + state_of(exit_code) + "\",\"exit_code\":" + std::to_string(exit_code);
  const std::string meaning = exit_code::describe(exit_code);
  if (!meaning.empty()) text += ",\"meaning\":\"" + meaning + "\"";
  if (old) text += ",\"batch\":" + std::to_string(old->batch);
  if (!members.empty()) text += "," + members;
  replace_file(run_dir / "result.json", text + "}\n");
}

}  // namespace ddp
