#include "worker/save/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <ranges>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/files/files.h"
#include "common/run_dir/run_dir.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "common/text/parse_whole.h"
#include "worker/plan/digest.h"
#include "worker/save/checkpoint/manifest.h"
#include "worker/save/failpoint.h"
#include "worker/save/output_file.h"
#include "worker/save/read_bytes.h"
#include "worker/save/trust.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStem = "step-";
constexpr std::string_view kTemporary = ".tmp-";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.safetensors";
constexpr const char* kBest = "best";

/// The checkpoints, newest first: step, and name of the directory.
std::vector<std::pair<std::int64_t, std::string>> list(const OwnedDir& directory) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& name : directory.names())
    if (const std::optional<std::int64_t> step = step_of(name)) found.emplace_back(*step, name);
  std::sort(found.rbegin(), found.rend());
  return found;
}

// ---- write

ManifestFile write_tensors(OutputFile& output,
                           const char* name,
                           std::string_view content,
                           std::span<const TensorView> tensors) {
  const WrittenFile written =
      put_safetensors(output, tensors, {{kContentKey, std::string(content)}});
  ManifestFile file{.name = name, .size = written.size, .digest = written.digest, .tensors = {}};
  for (const TensorView& tensor : tensors) {
    file.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, written.tensors.at(tensor.name)});
  }
  return file;
}

// Writes a whole checkpoint into `directory` and makes it durable, except for the directory's own
// entry.
void write_content(const OwnedDir& directory, const CheckpointContent& content) {
  failpoint("save.tensors");
  Manifest manifest{.head = content.head, .files = {}};
  std::vector<OutputFile> files;
  const auto create = [&](const char* name) -> OutputFile& {
    return files.emplace_back(directory, name, OutputFile::Mode::create);
  };
  const auto write = [&](const char* name, std::string_view kind, const auto& tensors) {
    manifest.files.push_back(write_tensors(create(name), name, kind, tensors));
  };
  write(kModel, kModelContent, content.model);
  write(kOptimizer, kOptimizerContent, content.optimizer);
  write(kState, kStateContent, content.state);
  failpoint("save.manifest");
  create(kManifest).write(to_text(manifest));
  failpoint("save.sync-file");
  // Synced at the end, so that the disk writes each file while the next one is prepared.
  for (OutputFile& file : files)
    file.sync();
  failpoint("save.sync-directory");
  directory.sync();
}

// Renames `temporary` to `name`. If there is a checkpoint of that name, the two are swapped:
// atomically if the file system can do that, else by moving the old one aside first.
void publish(const OwnedDir& directory, const std::string& temporary, const std::string& name) {
  const std::string path = (directory.path() / name).string();
  const int fd = directory.fd();
  const auto rename = [fd](const std::string& from, const std::string& to) {
    return ::renameat(fd, from.c_str(), fd, to.c_str());
  };
  if (rename(temporary, name) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST)
    throw SystemError(system_message("rename", path, errno));
  if (::renameat2(fd, temporary.c_str(), fd, name.c_str(), RENAME_EXCHANGE) == 0) return;
  const std::string old = temporary + "-old";
  check(rename(name, old), "rename", old);
  if (rename(temporary, name) != 0) {
    const int reason = errno;
    (void)rename(old, name);  // puts the old one back
    throw SystemError(system_message("rename", path, reason));
  }
  check(rename(old, temporary), "rename", temporary);
}

// ---- load

// Opens a file of a checkpoint. No value, with the reason, when it does not exist or is refused.
using Opener = std::function<std::optional<InputFile>(const std::string& name, std::string& why)>;

TensorFile read_tensors(const Opener& open, const ManifestFile& expected) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError(expected.name + ": " + what);
  };
  std::string why_not;
  const std::optional<InputFile> input = open(expected.name, why_not);
  if (!input) refuse(why_not);
  if (input->size() != expected.size) {
    refuse("expected " + std::to_string(expected.size) + " bytes, found " +
           std::to_string(input->size()));
  }
  std::vector<std::byte> bytes = read_bytes(*input);
  if (digest(bytes) != expected.digest) refuse("checksum differs");
  TensorFile file = TensorFile::parse(std::move(bytes), expected.name);
  // The checksum of the whole file was right, so this finds bugs of the writer, not damage.
  if (file.tensors().size() != expected.tensors.size())
    refuse("its tensors are not the manifest's");
  for (const ManifestTensor& tensor : expected.tensors) {
    const TensorView* const found = file.find(tensor.name);
    if (found == nullptr || found->dtype != tensor.dtype || found->shape != tensor.shape ||
        digest(found->bytes) != tensor.digest)
      refuse("tensor " + tensor.name + " is not the manifest's");
  }
  return file;
}

// Errors: UsageError "manifest.json: checksum differs"; SystemError (reading).
Manifest read_manifest(const Opener& open) try {
  std::string why_not;
  const std::optional<InputFile> file = open(kManifest, why_not);
  if (!file) throw UsageError(why_not);
  const std::vector<std::byte> bytes = read_bytes(*file);
  std::string text(bytes.size(), '\0');
  std::transform(bytes.begin(), bytes.end(), text.begin(), [](std::byte byte) {
    return static_cast<char>(byte);
  });
  return parse_manifest(text);
} catch (const UsageError& error) {
  throw UsageError(std::string(kManifest) + ": " + error.what());
}

// Errors: UsageError "model.safetensors: checksum differs", without the directory.
LoadedCheckpoint read_verified(const fs::path& path, const Opener& open) {
  const Manifest manifest = read_manifest(open);
  const auto find = [&](const char* name) -> const ManifestFile& {
    const auto file = std::find_if(manifest.files.begin(),
                                   manifest.files.end(),
                                   [&](const ManifestFile& entry) { return entry.name == name; });
    if (file == manifest.files.end())
      throw UsageError(std::string(kManifest) + ": it does not list " + name);
    return *file;
  };
  LoadedCheckpoint loaded{.path = path,
                          .head = manifest.head,
                          .model = read_tensors(open, find(kModel)),
                          .optimizer = read_tensors(open, find(kOptimizer)),
                          .state = read_tensors(open, find(kState))};
  for (const ManifestTensor& tensor : find(kModel).tensors)
    loaded.model_names.push_back(tensor.name);
  return loaded;
}

// Renames a damaged checkpoint instead of removing it, so that it can be examined. Returns why that
// failed, or "".
std::string set_aside(const OwnedDir& directory, const std::string& name) {
  const int fd = directory.fd();
  for (int number = 1; number < 1000; ++number) {
    const std::string bad = name + ".bad" + (number == 1 ? "" : std::to_string(number));
    if (::faccessat(fd, bad.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) continue;
    if (::renameat(fd, name.c_str(), fd, bad.c_str()) == 0) return {};
    return system_message("rename", (directory.path() / bad).string(), errno);
  }
  return "too many .bad directories";
}

// Opens a checkpoint of this run. Errors: SystemError when its directory is not ours alone.
OwnedDir find_own(const OwnedDir& checkpoints, const std::string& name) {
  std::string why_not;
  std::optional<OwnedDir> directory = checkpoints.find(name, why_not);
  if (!directory) throw SystemError(why_not);
  return std::move(*directory);
}

Opener opener(const OwnedDir& directory) {
  return [&directory](const std::string& file, std::string& why) {
    std::optional<InputFile> found = InputFile::find(directory, file);
    if (!found) why = std::strerror(ENOENT);
    return found;
  };
}

LoadedCheckpoint read_own(const OwnedDir& checkpoints, const std::string& name) {
  const OwnedDir directory = find_own(checkpoints, name);
  return read_verified(directory.path(), opener(directory));
}

/// The summary of all manifests of a run.
struct Heads {
  std::optional<std::string> best;
  std::vector<std::string> unreadable;  // at the moment; any of these may be the best
};

Heads read_heads(const OwnedDir& directory) {
  Heads result;
  std::vector<std::string> names;
  std::vector<CheckpointHead> heads;
  const auto newest_first = list(directory);
  for (const auto& [step, name] : std::views::reverse(newest_first)) {
    try {
      const OwnedDir one = find_own(directory, name);
      heads.push_back(read_manifest(opener(one)).head);
      names.push_back(name);
    } catch (const SystemError&) {
      result.unreadable.push_back(name);
    } catch (const UsageError&) {
      continue;  // damaged: reported when it is loaded
    }
  }
  if (const std::optional<std::size_t> best = find_best(heads)) result.best = names[*best];
  return result;
}

// A result that differs from its head's `best` is worse than that. If every result was the best at
// its time, later ones are better than earlier ones.
bool is_higher_better(std::span<const CheckpointHead> heads) {
  std::optional<double> first;
  bool is_higher = true;
  for (const CheckpointHead& head : heads) {
    if (!head.result || !head.best) continue;
    if (*head.result != *head.best) return *head.best > *head.result;
    if (first && *head.best != *first) is_higher = *head.best > *first;
    if (!first) first = head.best;
  }
  return is_higher;
}

// False if a file of the user's has the name: that was never a checkpoint.
bool may_be_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  return error || !fs::exists(status) || fs::is_directory(status);
}

}  // namespace

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStem)) return {};
  name.remove_prefix(kStem.size());
  return parse_whole<std::int64_t>(name, 0);
}

std::optional<std::size_t> find_best(std::span<const CheckpointHead> heads) {
  const bool is_higher = is_higher_better(heads);
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::optional<double>& result = heads[i].result;
    if (!result) continue;
    const double so_far = best ? *heads[*best].result : *result;
    if (!best || (is_higher ? *result > so_far : *result < so_far)) best = i;
  }
  return best;
}

LoadedCheckpoint load_checkpoint(const fs::path& path, bool trust) try {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd() < 0) throw UsageError("it is not a directory");
  struct stat status {};
  check(::fstat(directory.fd(), &status), "fstat", path.string());
  if (!trust && !is_trusted(status.st_uid)) throw UsageError(why_not_trusted(status.st_uid));
  return read_verified(path, [&](const std::string& name, std::string& why_not) {
    std::optional<InputFile> file = InputFile::open(path / name, why_not);
    if (file && !trust && !is_trusted(file->owner())) {
      why_not = why_not_trusted(file->owner());
      file.reset();
    }
    return file;
  });
} catch (const UsageError& error) {
  throw UsageError("cannot load checkpoint " + path.string() + ": " + one_line(error.what()) +
                   ". Name another one.");
}

Checkpoints::Checkpoints(const OwnedDir& run_dir, int keep, std::string run_id)
    : run_dir_(run_dir), keep_(std::max(keep, 2)), run_id_(std::move(run_id)) {
  if (run_id_.empty()) run_id_ = std::to_string(::getpid());
}

// Opened each time, because a user may have moved it to make room.
OwnedDir Checkpoints::directory() const {
  return run_dir_.enter("checkpoints");
}

fs::path Checkpoints::save(const CheckpointContent& content) {
  const OwnedDir directory = this->directory();
  remove_leftovers(directory);
  const std::string name = checkpoint_name(content.head.step);
  const std::string temporary = name + std::string(kTemporary) + run_id_;
  try {
    write_content(directory.enter(temporary), content);
    failpoint("save.rename");
    publish(directory, temporary, name);
  } catch (...) {
    directory.remove(temporary);
    throw;
  }
  // Beyond this point the new checkpoint is whole, but its name is not durable yet.
  failpoint("save.sync-parent");
  directory.sync();
  failpoint("save.latest");
  directory.remove(temporary);  // the old checkpoint of that step, if the two were swapped
  replace_file(directory, "latest", name + "\n");
  failpoint("save.remove-old");
  remove_old(directory, content.head.step);
  return directory.path() / name;
}

bool Checkpoints::amend(const CheckpointHead& head) {
  const OwnedDir directory = this->directory();
  const std::string name = checkpoint_name(head.step);
  std::string why_not;
  const std::optional<OwnedDir> found = directory.find(name, why_not);
  if (!found) return false;
  try {
    Manifest manifest = read_manifest(opener(*found));
    const std::string before = to_text(manifest);
    manifest.head = head;
    const std::string text = to_text(manifest);
    if (text == before) return true;
    failpoint("save.amend");
    replace_file(*found, kManifest, text);
    return true;
  } catch (const UsageError&) {
    return false;  // damaged since it was written
  }
}

std::optional<LoadedCheckpoint> Checkpoints::load_newest(std::vector<std::string>& warnings) {
  const OwnedDir directory = this->directory();
  std::vector<std::string> reasons;
  bool has_unread = false;  // a checkpoint that may be good
  std::optional<LoadedCheckpoint> loaded;
  for (const auto& [step, name] : list(directory)) {
    try {
      loaded = read_own(directory, name);
      break;
    } catch (const SystemError& error) {
      // Not the checkpoint's fault (a network disk is away, too many open files), so it is not
      // renamed.
      reasons.push_back("checkpoint " + name + " cannot be read (" + error.what() + ")");
      has_unread = has_unread || may_be_checkpoint(directory.path() / name);
    } catch (const UsageError& error) {
      const std::string aside = set_aside(directory, name);
      reasons.push_back("checkpoint " + name + " is damaged (" + one_line(error.what()) +
                        (aside.empty() ? ")" : "; it stays there: " + aside + ")"));
    }
  }
  // There may be a trained state, which a new beginning would overwrite.
  if (!loaded && has_unread) {
    throw SystemError(join_words(reasons, "; ") + ". Make " + directory.path().string() +
                      " readable, or begin again in another directory.");
  }
  const std::string instead =
      loaded ? "; resuming from " + loaded->path.filename().string() : std::string();
  for (const std::string& reason : reasons)
    warnings.push_back(reason + instead);
  return loaded;
}

void Checkpoints::mark_best() {
  const OwnedDir directory = this->directory();
  const std::optional<std::string> best = read_heads(directory).best;
  if (!best) return;
  const std::string text = *best + "\n";
  // A file that is not ours is not read, only replaced.
  const bool is_ours = directory.problem_of(kBest).empty();
  if (!is_ours || read_file(directory, kBest) != text) replace_file(directory, kBest, text);
}

void Checkpoints::remove_leftovers(const OwnedDir& directory) {
  for (const std::string& name : directory.names())
    if (name.find(kTemporary) != std::string::npos) directory.remove(name);
}

void Checkpoints::remove_old(const OwnedDir& directory, std::int64_t newest) const {
  const Heads heads = read_heads(directory);
  std::set<std::string> kept(heads.unreadable.begin(), heads.unreadable.end());
  if (heads.best) kept.insert(*heads.best);
  int newer = 0;
  for (const auto& [step, name] : list(directory)) {
    // Trap: a checkpoint of a later step could not be read when this run began. It does not count
    // as newer, and is kept.
    if (step > newest || newer++ < keep_ || kept.contains(name)) continue;
    // Renamed first, so that a crash in between leaves no half checkpoint under its name.
    const std::string doomed = name + std::string(kTemporary) + "old";
    const int fd = directory.fd();
    if (::renameat(fd, name.c_str(), fd, doomed.c_str()) == 0) directory.remove(doomed);
  }
}

}  // namespace ddp::worker
