#include "common/run_dir/run_dir.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/files/files.h"
#include "common/job/batch_plan.h"
#include "common/job/job_text.h"
#include "common/job/resolve_job.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "common/text/parse_whole.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr const char* kSetOutput = ". Set output= to a directory that can be written.";
constexpr std::size_t kMaxOfJob = 1 << 20;
constexpr int kMaxRuns = 1000000;
constexpr const char* kLockName = ".lock";
constexpr const char* kJobName = "job.yaml";
constexpr const char* kResultName = "result.json";
constexpr const char* kResume = "checkpoint.resume";
// Entries that a continued run reads or adds to: of every run, and of ddp-worker.
constexpr std::array<const char*, 4> kRecords{kLockName, kJobName, kResultName, "logs"};
constexpr std::array<const char*, 4> kWorkersRecords{
    "checkpoints", "metrics.jsonl", "metrics.csv", "rounds.jsonl"};
// Other files that exist before the first step.
constexpr std::array<const char*, 3> kEarlyFiles{"command.txt", kBatchName, "report.html"};
constexpr std::string_view kEventFile = "events.out.tfevents.";

// An exclusive lock that dies with its holder (flock(2)), or none and the reason.
Descriptor lock_run(const OwnedDir& directory, std::string& why_not) {
  Descriptor lock(directory.open_file(kLockName, O_RDWR | O_CREAT, why_not));
  if (!lock) {
    why_not = std::string(kLockName) + ": " + why_not;
    return lock;
  }
  // A reader that checks whether a run lives holds the lock for an instant
  // (common/report/run_reader).
  constexpr int kTries = 3;
  constexpr int kPause = 10;  // ms
  for (int tries = 0; tries < kTries; ++tries) {
    if (tries > 0) ::poll(nullptr, 0, kPause);
    if (::flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno != EWOULDBLOCK) break;
  }
  why_not = errno == EWOULDBLOCK ? "it is still running"
                                 : system_message("flock", directory.path().string(), errno);
  return {};
}

// "logs: it is a link", when a record is not ours alone.
std::string problem_of(const OwnedDir& directory, std::span<const char* const> records) {
  for (const char* const name : records) {
    if (const std::string problem = directory.problem_of(name); !problem.empty())
      return std::string(name) + ": " + problem;
  }
  return "";
}

// Opens an existing run directory if it and its records are ours alone.
std::optional<OwnedDir> open_run(const fs::path& path, const JobValues& job, std::string& why_not) {
  std::optional<OwnedDir> directory = OwnedDir::open(path, why_not);
  if (!directory) return {};
  why_not = problem_of(*directory, kRecords);
  const bool is_workers = job.is_null("launch.program");
  if (why_not.empty() && is_workers) why_not = problem_of(*directory, kWorkersRecords);
  if (!why_not.empty()) return {};
  return directory;
}

// The job of the run in `directory`; nothing when it cannot be read.
std::optional<JobValues> read_job(const OwnedDir& directory) try {
  const std::optional<std::string> text = read_file(directory, kJobName, kMaxOfJob);
  if (!text) return {};
  const YamlDocument document = parse_yaml(*text, kJobName);
  return resolve_job(&document, {});
} catch (const UsageError&) {
  return {};
} catch (const SystemError&) {
  return {};
}

struct OldRun {
  bool finished = false;
  std::int64_t batch = 0;
  double seconds = 0;          // of its last start; 0: unknown
  double earlier_seconds = 0;  // of those before it
};

// The JSON object in that file; nothing when it is missing or no JSON of ours.
std::optional<json::object> read_object(const OwnedDir& directory, const char* name) {
  const std::optional<std::string> text = read_file(directory, name);
  if (!text) return {};
  boost::system::error_code error;
  const json::value value = json::parse(*text, error);
  if (error || !value.is_object()) return {};
  return value.as_object();
}

double seconds_in(const json::object& object, const char* name) {
  constexpr double kMost = 1e10;
  const json::value* const found = object.if_contains(name);
  if (found == nullptr || !found->is_number()) return 0;
  const double seconds = found->to_number<double>();
  return seconds > 0 && seconds < kMost ? seconds : 0;
}

// Reads result.json of an earlier run; nothing: it cannot be read. The batch is that of its first
// round, even if later starts had more or fewer ranks.
std::optional<OldRun> read_result(const OwnedDir& directory) {
  const std::optional<json::object> object = read_object(directory, kResultName);
  if (!object) return {};
  OldRun run;
  if (const json::value* const state = object->if_contains("state"))
    run.finished = state->is_string() && state->as_string() == "finished";
  const std::optional<json::object> began = read_object(directory, kBatchName);
  const json::value* batch = began ? began->if_contains("whole") : nullptr;
  if (batch == nullptr) batch = object->if_contains("batch");
  if (batch != nullptr && batch->is_int64()) run.batch = batch->as_int64();
  run.seconds = seconds_in(*object, "seconds");
  run.earlier_seconds = seconds_in(*object, "earlier_seconds");
  return run;
}

// A member of result.json, after others; "" for 0.
std::string earlier_member(double seconds) {
  if (seconds <= 0) return "";
  return fmt::format(",\"earlier_seconds\":{:.3f}", seconds);
}

bool has_checkpoint(const OwnedDir& directory) {
  std::string ignored;
  const std::optional<OwnedDir> checkpoints = directory.find("checkpoints", ignored);
  if (!checkpoints) return false;
  const std::vector<std::string> names = checkpoints->names();
  return std::ranges::any_of(names, [](const std::string& name) {
    return name.starts_with("step-") && name.find('.') == std::string::npos;
  });
}

// A program without a job file cannot be compared with an earlier run, so each start gets a new
// directory (layer_overrides in launcher/plan sets checkpoint.resume=never).
bool may_continue(const JobValues& job) {
  return job.text(kResume) != "never" || job.setting(kResume).origin != "default";
}

// checkpoint.resume says how a run starts. With `never` or a path, only a run that began with the
// same value is continued. With `auto`, a run that began from a path is continued only once it has
// a checkpoint of its own.
std::string other_start(const OwnedDir& directory, const JobValues& before, const JobValues& job) {
  const std::string& began = before.text(kResume);
  const std::string& resume = job.text(kResume);
  if (resume == began) return "";
  const bool has_path = began != "auto" && began != "never";
  if (resume == "auto" && (!has_path || has_checkpoint(directory))) return "";
  return std::string(kResume) + " was " + one_line(began);
}

// "train.epochs was 3, is 5" if this job goes further than the earlier one and no key says the
// opposite; "" if it asks for nothing more.
std::string more_to_do(const JobValues& before, const JobValues& job) {
  std::string more;
  for (const char* const key : {"train.epochs", "train.max_steps"}) {
    const std::optional<std::int64_t> was = before.maybe_integer(key);  // nothing: no end
    const std::optional<std::int64_t> is = job.maybe_integer(key);
    if (was == is) continue;
    if (!was || (is && *is < *was)) return "";
    const std::string now = is ? std::to_string(*is) : "null";
    add_word(more, std::string(key) + " was " + std::to_string(*was) + ", is " + now);
  }
  return more;
}

// How the run in `directory`, whose job was `before`, continues: "continues the unfinished run in
// DIR". Nothing: with the reason in `why_not`, this is another job or has another whole batch; or
// nothing is left to do.
std::optional<std::string> find_continuation(const OwnedDir& directory,
                                             const JobValues& before,
                                             const JobValues& job,
                                             std::int64_t batch,
                                             std::string& why_not) {
  const std::optional<OldRun> old = read_result(directory);
  if (!old) {
    why_not = "its result.json cannot be read";
    return {};
  }
  const std::string more = old->finished ? more_to_do(before, job) : "";
  if (old->finished && job.text(kResume) == "never") return {};
  if (old->finished && more.empty()) {
    why_not = "it is finished";
    return {};
  }
  const TextMap ours = job_identity(job, true);
  bool has_other_batch = false;
  for (const auto& [path, value] : job_identity(before, true)) {
    if (ours.at(path) == value) continue;
    has_other_batch = has_other_batch || is_about_batch(path);
    if (is_about_batch(path)) continue;
    why_not = path + " was " + one_line(value);
    return {};
  }
  why_not = other_start(directory, before, job);
  // The same keys with another number of ranks are the same run, which keeps its whole batch.
  if (why_not.empty() && has_other_batch && old->batch != batch)
    why_not = "the whole batch was " + std::to_string(old->batch);
  if (!why_not.empty()) return {};
  const std::string& resume = job.text(kResume);
  return std::string("continues the ") + (old->finished ? "finished" : "unfinished") + " run in " +
         directory.path().string() + (more.empty() ? "" : ": " + more) +
         (resume == "auto" ? "" : "; checkpoint.resume=" + one_line(resume) + " was its start");
}

std::string to_text(RunState state) {
  constexpr const char* kNames[] = {"finished", "stopped", "failed"};
  return kNames[static_cast<std::size_t>(state)];
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
    const int number = found == name ? 1 : parse_whole<int>(found.substr(name.size())).value_or(0);
    if (number > 0 && number < kMaxRuns && numbered(base, number).filename() == found)
      numbers.push_back(number);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  return numbers;
}

bool is_full(const std::error_code& error) {
  return error.value() == ENOSPC || error.value() == EDQUOT || error.value() == EIO;
}

// Removes a new directory after an error, mostly for lack of space.
[[noreturn]] void leave_nothing(const OwnedDir& made, bool made_output, const std::string& why) {
  (void)made.remove_self();
  std::error_code ignored;
  if (made_output) fs::remove(made.path().parent_path(), ignored);
  throw SystemError(why + kSetOutput);
}

// <output>/latest, replaced by rename so that a reader always finds one of the two. Returns a
// notice if another user's link stays, in a directory such as /tmp.
std::string point_latest(const fs::path& output, const fs::path& name) {
  const fs::path temporary = output / (".latest-" + random_hex(8));
  std::error_code ignored;  // fails on a file system without links
  const fs::file_status there = fs::symlink_status(output / "latest", ignored);
  if (fs::exists(there) && !fs::is_symlink(there)) return "";  // a file of the user's
  fs::create_symlink(name, temporary, ignored);
  std::error_code error;
  fs::rename(temporary, output / "latest", error);
  fs::remove(temporary, ignored);
  struct stat status {};
  const bool is_others =
      error && ::lstat((output / "latest").c_str(), &status) == 0 && status.st_uid != ::geteuid();
  if (!is_others) return "";
  return "; " + (output / "latest").string() + " does not lead there: it belongs to user " +
         std::to_string(status.st_uid);
}

// Whether there are files that neither we nor ddp-worker's library write, but a program of the
// user.
bool holds_files_of_others(const OwnedDir& directory) {
  return std::ranges::any_of(directory.names(), [](const std::string& name) {
    const auto is_listed = [&name](const auto& list) {
      return std::ranges::find(list, name) != list.end();
    };
    return !is_listed(kRecords) && !is_listed(kWorkersRecords) && !is_listed(kEarlyFiles) &&
           !name.starts_with(kEventFile);
  });
}

// Whether all files are ours and may be removed. ddp-worker itself runs no code of the user.
bool is_all_ours(const OwnedDir& directory) try {
  const std::optional<JobValues> job = read_job(directory);
  return job && (job->is_null("launch.program") || !holds_files_of_others(directory));
} catch (const SystemError&) {
  return false;
}

}  // namespace

RunDir RunDir::choose(const JobValues& job, int world_size, const std::string& command) {
  const std::int64_t batch = plan_batch(job, world_size).global_batch;
  const fs::path output = fs::absolute(job.text("output")).lexically_normal();
  std::error_code error;
  const bool made_output = fs::create_directories(output, error);
  if (error) {
    const std::string text =
        "cannot make the output directory, " + output.string() + ": " + error.message();
    if (is_full(error)) throw SystemError(text + kSetOutput);
    throw UsageError("output: " + text + kSetOutput);
  }
  const fs::path base = output / job.text("name");
  int last = 0;    // number of a run of this name; "exp2" may be the first of that name
  int newest = 0;  // newest number that may be a run
  std::string why_newest_ended;  // why the newest is not continued
  std::optional<RunDir> run;
  JobValues record = job;
  for (const int number : numbers_of(base)) {
    const fs::path path = numbered(base, number);
    std::string why_not;
    std::optional<OwnedDir> directory = open_run(path, job, why_not);
    const std::optional<JobValues> before = directory ? read_job(*directory) : std::nullopt;
    if (before && before->text("name") != job.text("name")) continue;
    if (before) last = std::max(last, number);
    if (!may_continue(job) && last > 0) break;
    if (!may_continue(job)) continue;
    Descriptor lock = directory ? lock_run(*directory, why_not) : Descriptor();
    if (lock) {
      RunDir candidate(std::move(*directory), std::move(lock));
      std::optional<std::string> notice;
      if (before) {
        notice = find_continuation(candidate.directory_, *before, job, batch, why_not);
      } else if (const auto old = read_result(candidate.directory_); !old || !old->finished) {
        why_not = "its job.yaml cannot be read";  // of another version, or written by hand
      }
      if (notice) {
        run = std::move(candidate);
        run->continues_ = true;
        run->notice_ = *notice;
        // Keep the value, so that the command that began the run finds it again.
        record.set(kResume, before->setting(kResume));
        break;
      }
    }
    if (newest == 0) {
      newest = number;
      why_newest_ended = why_not;
    }
  }
  // Try numbers after the highest; start from the first again if no higher one is left.
  for (int tried = 0; !run && tried < kMaxRuns - 1; ++tried) {
    const int number = (last + tried) % (kMaxRuns - 1) + 1;
    const fs::path path = numbered(base, number);
    std::optional<OwnedDir> made;
    try {
      made = OwnedDir::make(path);
    } catch (const SystemError& refused) {
      throw SystemError(std::string(refused.what()) + kSetOutput);
    }
    if (!made) continue;  // another job has just made it
    std::string why_not;
    Descriptor lock = lock_run(*made, why_not);
    if (!lock) leave_nothing(*made, made_output, "cannot lock " + path.string() + ": " + why_not);
    run = RunDir(std::move(*made), std::move(lock));
    run->notice_ = "new run directory " + path.string();
    if (!why_newest_ended.empty()) {
      run->notice_ +=
          " (" + numbered(base, newest).string() + " is not continued: " + why_newest_ended + ")";
    }
  }
  if (!run) throw SystemError("no free run directory for " + base.string() + ". Remove old runs.");

  run->made_output_ = made_output;
  const OwnedDir& directory = run->directory_;
  const OldRun old = run->continues_ ? read_result(directory).value_or(OldRun()) : OldRun();
  try {
    replace_file(directory, kJobName, to_yaml(record));
    replace_file(directory, "command.txt", command + "\n");
    replace_file(directory,
                 kResultName,
                 "{\"state\":\"running\",\"batch\":" + std::to_string(batch) + ",\"world_size\":" +
                     std::to_string(world_size) + ",\"pid\":" + std::to_string(::getpid()) +
                     earlier_member(old.earlier_seconds + old.seconds) + "}\n");
  } catch (const SystemError& refused) {
    if (!run->continues_) leave_nothing(directory, made_output, refused.what());
    throw;
  }
  run->latest_before_ = fs::read_symlink(output / "latest", error).filename();
  run->notice_ += point_latest(output, run->path().filename());
  return std::move(*run);
}

bool RunDir::remove_unused(int exit_code, std::optional<RunState> state) {
  constexpr std::array kSayAll{
      exit_code::kUsage, exit_code::kRefused, exit_code::kCannotExecute, exit_code::kNotFound};
  const bool says_all = std::ranges::find(kSayAll, exit_code) != kSayAll.end() ||
                        state.value_or(state_of(exit_code)) == RunState::stopped;
  if (continues_ || !says_all || has_checkpoint(directory_) || !is_all_ours(directory_))
    return false;
  if (!directory_.remove_self()) return false;
  std::error_code error;
  const fs::path output = path().parent_path();
  // Another job may have changed the link meanwhile.
  if (fs::read_symlink(output / "latest", error) == path().filename()) {
    if (latest_before_.empty()) {
      fs::remove(output / "latest", error);
    } else {
      (void)point_latest(output, latest_before_);
    }
  }
  if (made_output_) fs::remove(output, error);  // stays when it is not empty
  return true;
}

std::string checkpoint_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 6) digits.insert(0, 6 - digits.size(), '0');
  return "step-" + digits;
}

RunState state_of(int exit_code) {
  if (exit_code == exit_code::kOk) return RunState::finished;
  const bool by_user = exit_code == exit_code::kTerminated || exit_code == exit_code::of_signal(2);
  return by_user ? RunState::stopped : RunState::failed;
}

void write_result(const OwnedDir& directory,
                  int exit_code,
                  const std::string& members,
                  std::optional<RunState> state) {
  // Keep the batch, which decides whether a later start continues this run.
  const std::optional<OldRun> old = read_result(directory);
  std::string text = "{\"state\":\"" + to_text(state.value_or(state_of(exit_code))) +
                     "\",\"exit_code\":" + std::to_string(exit_code);
  // A run stopped by the user may have saved nothing: it is a script, or was killed.
  const std::string meaning =
      state == RunState::stopped ? "stopped" : exit_code::describe(exit_code);
  if (!meaning.empty()) text += ",\"meaning\":\"" + meaning + "\"";
  if (old) text += ",\"batch\":" + std::to_string(old->batch);
  if (old) text += earlier_member(old->earlier_seconds);
  if (!members.empty()) text += "," + members;
  replace_file(directory, kResultName, text + "}\n");
}

}  // namespace ddp
