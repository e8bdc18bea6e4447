#include "common/report/run_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/files/input_file.h"
#include "common/report/run_parser.h"
#include "common/text/parse_whole.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 30;  // of metrics and rounds
constexpr std::size_t kMaxText = std::size_t{32} << 20;        // of the others
constexpr std::size_t kMaxRecordLine = std::size_t{16} << 20;

/// The files of one directory, by its descriptor; files that cannot be read become problems.
class Files {
 public:
  Files(int directory, RunRecord& run) : directory_(directory), run_(run) {}

  /// Calls `take` with each whole line, without its end. Returns whether the file exists.
  bool for_each_line(const std::string& name, const std::function<void(std::string_view)>& take) {
    const std::optional<InputFile> file = open(name);
    if (!file) return false;
    std::array<char, 1 << 16> buffer{};
    std::string line;
    std::size_t total = 0;
    bool is_too_long = false;
    while (total < kMaxRecordBytes) {
      std::string_view rest(buffer.data(), read(*file, buffer));
      if (rest.empty()) break;
      total += rest.size();
      for (std::size_t end = rest.find('\n'); end != std::string_view::npos;
           end = rest.find('\n')) {
        line += rest.substr(0, end);
        if (!is_too_long) take(line);
        line.clear();
        is_too_long = false;
        rest.remove_prefix(end + 1);
      }
      if (line.size() + rest.size() > kMaxRecordLine) {
        is_too_long = true;
        line.clear();
      }
      if (!is_too_long) line += rest;
    }
    if (total >= kMaxRecordBytes) run_.problems.push_back(name + ": only its first GiB is shown");
    return true;
  }

  std::optional<std::string> text(const std::string& name) {
    const std::optional<InputFile> file = open(name);
    if (!file) return {};
    std::string all(std::min(file->size(), kMaxText), '\0');
    all.resize(read(*file, all));
    return all;
  }

 private:
  /// A problem also for a link, as another user may have put any file there.
  std::optional<InputFile> open(const std::string& name) {
    std::string why_not;
    std::optional<InputFile> file = InputFile::open_at(directory_, name, name, why_not);
    struct stat status {};
    const bool is_absent = !file &&
                           ::fstatat(directory_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 &&
                           errno == ENOENT;
    if (!file && !is_absent) run_.problems.push_back(name + ": " + why_not);
    return file;
  }

  /// How much was read; 0 also after an error.
  std::size_t read(const InputFile& file, std::span<char> buffer) try {
    return file.read(std::as_writable_bytes(buffer));
  } catch (const SystemError& error) {
    run_.problems.emplace_back(error.what());
    return 0;
  }

  int directory_;
  RunRecord& run_;
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// "step-000600" is 600.
std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view kBefore = "step-";
  if (!name.starts_with(kBefore)) return {};
  return parse_whole<std::int64_t>(name.substr(kBefore.size()));
}

/// Lists the existing checkpoints, which include saves that a killed run could not record.
void list_checkpoints(const fs::path& path, RunRecord& run) {
  std::error_code error;
  for (fs::directory_iterator it(path / "checkpoints", error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::optional<std::int64_t> step = step_of(name);
    if (!step) continue;
    run.checkpoints.push_back(name);
    run.saves.push_back(*step);
  }
  std::ranges::sort(run.saves);
  const auto twice = std::ranges::unique(run.saves);
  run.saves.erase(twice.begin(), twice.end());
  std::ranges::sort(
      run.checkpoints, {}, [](const std::string& name) { return std::pair(name.size(), name); });
}

/// Whether the lock of the run (common/run_dir/run_dir) is free, so that none of its processes
/// lives. A pid would prove less: it may be reused by now, or be of another node.
bool is_lost(int directory) {
  const Descriptor lock(
      ::openat(directory, ".lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return lock.fd() >= 0 && ::flock(lock.fd(), LOCK_SH | LOCK_NB) == 0;
}

void read_all(int directory, RunRecord& run) {
  Files files(directory, run);
  if (const auto text = files.text("result.json")) parse_result(*text, run);
  if (run.state == "running" && is_lost(directory)) run.state = "lost";
  if (const auto text = files.text("command.txt")) run.command = first_line(*text);
  run.has_job = false;
  if (const auto text = files.text("job.yaml")) parse_job(*text, run);
  MetricsParser metrics(run);
  const bool has_json =
      files.for_each_line("metrics.jsonl", [&](std::string_view line) { metrics.add_json(line); });
  if (!has_json)
    files.for_each_line("metrics.csv", [&](std::string_view line) { metrics.add_csv(line); });
  files.for_each_line("rounds.jsonl", [&](std::string_view line) { parse_round_line(line, run); });
  if (const auto text = files.text("classes.json")) parse_classes(*text, run);
  if (const auto text = files.text("checkpoints/best")) run.best_checkpoint = first_line(*text);
}

RunRecord named(const fs::path& path) {
  RunRecord run;
  run.path = path.string();
  run.name = path.filename().string();
  return run;
}

}  // namespace

RunRecord read_run(const OwnedDir& directory) {
  RunRecord run = named(directory.path());
  read_all(directory.fd(), run);
  list_checkpoints(directory.path(), run);
  return run;
}

RunRecord read_run(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);  // <output>/latest is a link
  const Descriptor directory(error ? -1 : ::open(real.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd() < 0) {
    throw UsageError(path.string() + ": " +
                     (error ? error.message() : std::generic_category().message(errno)) +
                     ". Name the directory of a run.");
  }
  RunRecord run = named(real);
  read_all(directory.fd(), run);
  list_checkpoints(real, run);
  if (run.state == "unknown" && run.epochs.empty() && run.steps.empty()) {
    throw UsageError(path.string() +
                     ": it has neither result.json nor metrics. Name the directory of a run.");
  }
  return run;
}

}  // namespace ddp
