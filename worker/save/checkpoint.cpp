#include "worker/save/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/files.h"
#include "common/run_dir.h"
#include "worker/save/digest.h"
#include "worker/save/manifest.h"
#include "worker/save/output_file.h"
#include "worker/save/read_bytes.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStem = "step-";
constexpr std::string_view kTemporary = ".tmp-";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.safetensors";

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator i(directory, error), end; !error && i != end; i.increment(error))
    names.push_back(i->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    throw SystemError(system_message("readdir", directory.string(), error.value()));
  return names;
}

std::optional<std::int64_t> parse_name(std::string_view name) {
  if (!name.starts_with(kStem)) return {};
  name.remove_prefix(kStem.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return {};
  return step;
}

/// Steps of the whole checkpoints, newest first, with the names of their directories.
std::vector<std::pair<std::int64_t, std::string>> list(const fs::path& directory) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& name : names_in(directory))
    if (const std::optional<std::int64_t> step = parse_name(name)) found.emplace_back(*step, name);
  std::sort(found.rbegin(), found.rend());
  return found;
}

void remove_tree(const fs::path& path) {
  std::error_code ignored;  // what stays is only room on the disk, and the next save tries again
  fs::remove_all(path, ignored);
}

// ---- write

ManifestFile write_tensors(const fs::path& directory,
                           const char* name,
                           std::span<const TensorView> tensors) {
  const WrittenFile written = write_safetensors(directory / name, tensors);
  ManifestFile file{.name = name, .size = written.size, .digest = written.digest, .tensors = {}};
  for (const TensorView& tensor : tensors)
    file.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, digest(tensor.bytes)});
  return file;
}

// All of a checkpoint in `directory`, durable but for the entry of the directory itself.
void write_content(const fs::path& directory, const CheckpointContent& content) {
  check(::mkdir(directory.c_str(), 0777), "mkdir", directory.string());
  Manifest manifest{.head = content.head, .files = {}};
  manifest.files.push_back(write_tensors(directory, kModel, content.model));
  manifest.files.push_back(write_tensors(directory, kOptimizer, content.optimizer));
  manifest.files.push_back(write_tensors(directory, kState, content.state));
  OutputFile file(directory / kManifest, OutputFile::Mode::create);
  file.write(to_text(manifest));
  file.sync();
  sync_directory(directory);
}

// Gives `temporary` its name. A checkpoint of that name gets the temporary one, in the same instant
// where the file system can do that, else after it was moved aside.
void publish(const fs::path& temporary, const fs::path& path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST)
    throw SystemError(system_message("rename", path.string(), errno));
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0)
    return;
  const fs::path old = temporary.string() + "-old";
  check(::rename(path.c_str(), old.c_str()), "rename", old.string());
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    (void)::rename(old.c_str(), path.c_str());  // as it was
    throw SystemError(system_message("rename", path.string(), reason));
  }
  check(::rename(old.c_str(), temporary.c_str()), "rename", temporary.string());
}

// ---- load

TensorFile read_tensors(const fs::path& directory, const ManifestFile& expected) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError(expected.name + ": " + what);
  };
  std::error_code error;
  const std::uint64_t size = fs::file_size(directory / expected.name, error);
  if (error) refuse(error.message());
  if (size != expected.size) {
    refuse("expected " + std::to_string(expected.size) + " bytes, found " + std::to_string(size));
  }
  std::vector<std::byte> bytes = read_bytes(directory / expected.name);
  if (digest(bytes) != expected.digest) refuse("checksum differs");
  TensorFile file = TensorFile::parse(std::move(bytes), expected.name);
  // The whole file is what was written, so this finds mistakes of the writer, not damage.
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

// Errors: UsageError "model.safetensors: checksum differs", without the directory.
LoadedCheckpoint read_verified(const fs::path& path) {
  Manifest manifest;
  try {
    const std::vector<std::byte> bytes = read_bytes(path / kManifest);
    std::string text(bytes.size(), '\0');
    std::transform(bytes.begin(), bytes.end(), text.begin(), [](std::byte byte) {
      return static_cast<char>(byte);
    });
    manifest = parse_manifest(text);
  } catch (const UsageError& error) {
    throw UsageError(std::string(kManifest) + ": " + error.what());
  }
  const auto read = [&](const char* name) {
    const auto file = std::find_if(manifest.files.begin(),
                                   manifest.files.end(),
                                   [&](const ManifestFile& entry) { return entry.name == name; });
    if (file == manifest.files.end())
      throw UsageError(std::string(kManifest) + ": it does not list " + name);
    return read_tensors(path, *file);
  };
  return {.path = path,
          .head = manifest.head,
          .model = read(kModel),
          .optimizer = read(kOptimizer),
          .state = read(kState)};
}

// Out of the way, but kept for whoever wants to know why. Returns what went wrong with that, or "".
std::string set_aside(const fs::path& path) {
  for (int number = 1; number < 1000; ++number) {
    const fs::path bad = path.string() + ".bad" + (number == 1 ? "" : std::to_string(number));
    if (std::error_code ignored; fs::exists(bad, ignored)) continue;
    if (::rename(path.c_str(), bad.c_str()) == 0) return {};
    return system_message("rename", bad.string(), errno);
  }
  return "too many .bad directories";
}

}  // namespace

LoadedCheckpoint load_checkpoint(const fs::path& path) try {
  std::error_code error;
  if (!fs::is_directory(path, error)) throw UsageError("it is no directory");
  return read_verified(path);
} catch (const UsageError& error) {
  throw UsageError("cannot load checkpoint " + path.string() + ": " + error.what() +
                   ". Name another one in checkpoint.resume, or use auto.");
}

Checkpoints::Checkpoints(fs::path directory, int keep, std::string run_id)
    : directory_(std::move(directory)), keep_(std::max(keep, 2)), run_id_(std::move(run_id)) {
  if (run_id_.empty()) run_id_ = std::to_string(::getpid());
}

fs::path Checkpoints::save(const CheckpointContent& content) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) throw SystemError(system_message("mkdir", directory_.string(), error.value()));
  remove_leftovers();

  const std::string name = checkpoint_name(content.head.step);
  const fs::path temporary = directory_ / (name + std::string(kTemporary) + run_id_);
  try {
    write_content(temporary, content);
    publish(temporary, directory_ / name);
  } catch (...) {
    remove_tree(temporary);
    throw;
  }
  // Beyond this point the new checkpoint is whole and verified.
  sync_directory(directory_);
  remove_tree(temporary);  // the old one of that step, if they changed places
  replace_file(directory_ / "latest", name + "\n");
  remove_old();
  return directory_ / name;
}

std::optional<LoadedCheckpoint> Checkpoints::load_newest(std::vector<std::string>& warnings) {
  std::vector<std::string> reasons;
  std::optional<LoadedCheckpoint> loaded;
  for (const auto& [step, name] : list(directory_)) {
    try {
      loaded = read_verified(directory_ / name);
      verified_ = step;
      break;
    } catch (const SystemError& error) {
      // Not its fault: a network disk that is away, too many open files. It stays where it is.
      reasons.push_back("checkpoint " + name + " cannot be read (" + error.what() + ")");
    } catch (const UsageError& error) {
      const std::string aside = set_aside(directory_ / name);
      reasons.push_back("checkpoint " + name + " is damaged (" + error.what() +
                        (aside.empty() ? ")" : "; it stays there: " + aside + ")"));
    }
  }
  const std::string instead =
      loaded ? "; resuming from " + loaded->path.filename().string()
             : "; no older checkpoint is left, so training starts from the beginning";
  for (const std::string& reason : reasons)
    warnings.push_back(reason + instead);
  return loaded;
}

void Checkpoints::mark_best(std::int64_t step) {
  replace_file(directory_ / "best", checkpoint_name(step) + "\n");
}

void Checkpoints::remove_leftovers() const {
  for (const std::string& name : names_in(directory_))
    if (name.find(kTemporary) != std::string::npos) remove_tree(directory_ / name);
}

void Checkpoints::remove_old() const {
  std::set<std::string> kept;
  if (const std::optional<std::string> best = read_file(directory_ / "best"))
    kept.insert(best->substr(0, best->find('\n')));
  int newer = 0;
  for (const auto& [step, name] : list(directory_)) {
    if (newer++ < keep_ || step == verified_ || kept.contains(name)) continue;
    // Renamed first, so that a crash in between leaves no checkpoint with half its files.
    const fs::path doomed = directory_ / (name + std::string(kTemporary) + "old");
    if (::rename((directory_ / name).c_str(), doomed.c_str()) == 0) remove_tree(doomed);
  }
}

}  // namespace ddp::worker
