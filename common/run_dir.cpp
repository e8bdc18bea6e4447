#include "common/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/files.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kMaxRuns = 1000000;
constexpr const char* kLockName = ".lock";

// An exclusive lock that dies with its holder (flock(2)), or -1 and the reason.
int try_lock(const fs::path& directory, std::string& why_not) {
  const fs::path path = directory / kLockName;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    why_not = system_message("open", path.string(), errno);
    return -1;
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  why_not =
      errno == EWOULDBLOCK ? "it is still running" : system_message("flock", path.string(), errno);
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
  if (!old) {
    why_not = "its result.json cannot be read";
    return false;
  }
  if (old->finished) return false;
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

std::string to_text(RunState state) {
  switch (state) {
    case RunState::finished:
      return "finished";
    case RunState::stopped:
      return "stopped";
    case RunState::failed:
      break;
  }
  return "failed";
}

fs::path numbered(const fs::path& base, int number) {
  return number == 1 ? base : fs::path(base.string() + std::to_string(number));
}

// The numbers of the runs of this name, newest first.
std::vector<int> numbers_of(const fs::path& base) {
  const std::string name = base.filename().string();
  std::vector<int> numbers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(base.parent_path(), ignored)) {
    const std::string found = entry.path().filename().string();
    if (!found.starts_with(name)) continue;
    int number = found == name ? 1 : 0;
    const char* const end = found.data() + found.size();
    if (number == 0 && std::from_chars(found.data() + name.size(), end, number).ptr != end)
      continue;
    if (number > 0 && number < kMaxRuns && numbered(base, number).filename() == found)
      numbers.push_back(number);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  return numbers;
}

// <output>/latest, replaced by rename so that a reader always finds one of the two.
void point_latest(const fs::path& output, const fs::path& name) {
  const fs::path temporary = output / (".latest-" + std::to_string(::getpid()));
  std::error_code ignored;  // a file system without links: the directories are there all the same
  fs::remove(temporary, ignored);
  fs::create_symlink(name, temporary, ignored);
  fs::rename(temporary, output / "latest", ignored);
}

}  // namespace

RunDir RunDir::choose(const JobValues& job, int world_size, const std::string& command) {
  const std::int64_t batch = plan_batch(job, world_size).whole;
  const fs::path output = fs::absolute(job.text("output")).lexically_normal();
  std::error_code error;
  const bool made_output = fs::create_directories(output, error);
  if (error) {
    throw SystemError("cannot make the output directory, " + output.string() + ": " +
                      error.message() + ". Set output= to a directory that can be written.");
  }
  const fs::path base = output / job.text("name");
  const bool may_resume = job.text("checkpoint.resume") == "auto";
  const std::vector<int> numbers = numbers_of(base);
  const int last = numbers.empty() ? 0 : numbers.front();

  std::string of_the_newest;  // why it is not continued
  std::optional<RunDir> run;
  for (const int number : numbers) {
    if (!may_resume || run) break;
    const fs::path path = numbered(base, number);
    std::string why_not;
    RunDir candidate(path, try_lock(path, why_not));
    if (candidate.lock_fd_ >= 0 && is_unfinished_same_job(path, job, batch, why_not)) {
      run = std::move(candidate);
      run->continues_ = true;
      run->notice_ = "continues the unfinished run in " + path.string();
    }
    if (number == last) of_the_newest = why_not;
  }
  for (int number = last + 1; !run && number < kMaxRuns; ++number) {
    const fs::path path = numbered(base, number);
    if (::mkdir(path.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // another job took it just now
      throw SystemError(system_message("mkdir", path.string(), errno) +
                        ". Set output= to a directory that can be written.");
    }
    std::string why_not;
    const int lock = try_lock(path, why_not);
    if (lock < 0) throw SystemError("cannot lock " + path.string() + ": " + why_not);
    run = RunDir(path, lock);
    run->notice_ = "new run directory " + path.string();
    if (!of_the_newest.empty()) {
      run->notice_ +=
          " (" + numbered(base, last).string() + " is not continued: " + of_the_newest + ")";
    }
  }
  if (!run) throw SystemError("no free run directory for " + base.string() + ". Remove old runs.");

  replace_file(run->path_ / "job.yaml", to_yaml(job));
  replace_file(run->path_ / "command.txt", command + "\n");
  replace_file(run->path_ / "result.json",
               "{\"state\":\"running\",\"batch\":" + std::to_string(batch) + ",\"world_size\":" +
                   std::to_string(world_size) + ",\"pid\":" + std::to_string(::getpid()) + "}\n");
  run->made_output_ = made_output;
  run->latest_before_ = fs::read_symlink(output / "latest", error);
  point_latest(output, run->path_.filename());
  return std::move(*run);
}

bool RunDir::remove_unused(int exit_code) {
  const bool says_all = exit_code == exit_code::kUsage || exit_code == exit_code::kRefused ||
                        state_of(exit_code) == RunState::stopped;
  if (continues_ || !says_all) return false;
  std::error_code error;
  fs::remove_all(path_, error);
  if (error) return false;
  const fs::path output = path_.parent_path();
  // Another job may have pointed it at its own run since.
  if (fs::read_symlink(output / "latest", error) == path_.filename()) {
    if (latest_before_.empty()) {
      fs::remove(output / "latest", error);
    } else {
      point_latest(output, latest_before_);
    }
  }
  if (made_output_) fs::remove(output, error);  // stays when it is not empty
  return true;
}

RunDir::RunDir(RunDir&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      continues_(other.continues_),
      notice_(std::move(other.notice_)),
      latest_before_(std::move(other.latest_before_)),
      made_output_(other.made_output_) {}

RunDir& RunDir::operator=(RunDir&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(continues_, other.continues_);
  std::swap(notice_, other.notice_);
  std::swap(latest_before_, other.latest_before_);
  std::swap(made_output_, other.made_output_);
  return *this;
}

RunDir::~RunDir() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

std::string checkpoint_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 6) digits.insert(0, 6 - digits.size(), '0');
  return "step-" + digits;
}

RunState state_of(int exit_code) {
  if (exit_code == exit_code::kOk) return RunState::finished;
  const bool by_user =
      exit_code == exit_code::kStoppedAfterCheckpoint || exit_code == exit_code::of_signal(2);
  return by_user ? RunState::stopped : RunState::failed;
}

void write_result(const fs::path& run_dir,
                  int exit_code,
                  const std::string& members,
                  std::optional<RunState> state) {
  // Batch and world size stay: they decide whether a later start continues this run.
  const std::optional<OldRun> old = read_result(run_dir);
  std::string text = "{\"state\":\"" + to_text(state.value_or(state_of(exit_code))) +
                     "\",\"exit_code\":" + std::to_string(exit_code);
  const std::string meaning = exit_code::describe(exit_code);
  if (!meaning.empty()) text += ",\"meaning\":\"" + meaning + "\"";
  if (old) text += ",\"batch\":" + std::to_string(old->batch);
  if (!members.empty()) text += "," + members;
  replace_file(run_dir / "result.json", text + "}\n");
}

}  // namespace ddp
