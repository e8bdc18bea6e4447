#include "launcher/os/scratch_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/error.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kWritableByOthers = 0022;

/// "ddp-1000", for a directory that other users share.
std::string name_of_user() {
  return "ddp-" + std::to_string(::geteuid());
}

constexpr const char* kUsualDirectory = "/tmp";

/// /tmp, or in a container whose root cannot be written another directory of that kind. It is the
/// same for every launcher of the user, so that they find each other.
std::optional<fs::path> common_directory() {
  for (const fs::path& directory : {fs::path(kUsualDirectory),
                                    fs::path("/run/user") / std::to_string(::geteuid()),
                                    fs::path("/dev/shm")}) {
    if (::access(directory.c_str(), W_OK | X_OK) == 0) return directory;
  }
  return std::nullopt;
}

std::vector<std::string> names_in(int fd) {
  std::vector<std::string> names;
  Descriptor copy(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));  // with its own position
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(copy.fd()), ::closedir);
  if (!list) return names;
  (void)copy.release();
  while (const dirent* const entry = ::readdir(list.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

/// The directory that this variable names, if entries made in it stay ours. Nothing: it does not
/// exist (su, containers), or is another user's (sudo keeps the variable).
std::optional<fs::path> find_directory(const Environment& environment,
                                       const char* variable,
                                       bool may_be_roots) {
  const std::optional<std::string> path = find_variable(environment, variable);
  struct stat status {};
  if (!path || ::stat(path->c_str(), &status) != 0 || ::access(path->c_str(), W_OK) != 0)
    return std::nullopt;
  // With the sticky bit others may add entries, but not remove or rename ours (inode(7)).
  const bool is_closed = (status.st_mode & kWritableByOthers) == 0 || (status.st_mode & S_ISVTX);
  const bool is_trusted = status.st_uid == ::geteuid() || (may_be_roots && status.st_uid == 0);
  if (!S_ISDIR(status.st_mode) || !is_trusted || !is_closed) return std::nullopt;
  return fs::absolute(*path);
}

/// $XDG_RUNTIME_DIR, if usable.
std::optional<fs::path> runtime_directory(const Environment& environment) {
  return find_directory(environment, "XDG_RUNTIME_DIR", false);
}

/// $TMPDIR comes last, as other programs of the user may have another value.
fs::path temporary_directory(const Environment& environment) {
  if (const auto common = common_directory()) return *common;
  return find_directory(environment, "TMPDIR", true).value_or(kUsualDirectory);
}

fs::path usual_place(const Environment& environment) {
  if (const auto directory = runtime_directory(environment)) return *directory / "ddp";
  return temporary_directory(environment) / name_of_user();
}

/// The places with a random name.
std::vector<PrivateDir> random_places(const Environment& environment) {
  std::vector<PrivateDir> places;
  const fs::path directory = temporary_directory(environment);
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return places;
  const std::string start = name_of_user() + ".";
  for (const std::string& name : names_in(opened.fd())) {
    if (!name.starts_with(start)) continue;
    std::string somebody_else;
    auto place = PrivateDir::open(directory / name, somebody_else);
    if (place) places.push_back(std::move(*place));
  }
  return places;
}

fs::path make_random_place(const Environment& environment) {
  std::string name = (temporary_directory(environment) / (name_of_user() + ".XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) throw SystemError(system_message("mkdtemp", name, errno));
  return name;
}

void make_directory(const fs::path& path) {
  // The owner of an existing entry is checked later, by its descriptor: by its name the check could
  // be about another entry.
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return;
  throw SystemError(system_message("mkdir", path.string(), errno) +
                    ". Set XDG_RUNTIME_DIR or TMPDIR to a directory of yours that can be "
                    "written.");
}

/// Whether the name is an agent's id; other entries are not agents' directories.
bool is_agent_id(std::string_view name) {
  constexpr std::size_t kDigits = 32;
  return name.size() == kDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The places in which processes of this user hold an agent's directory open, each once.
/// PrivateDir::open() checks their owner.
std::set<fs::path> places_in_use() {
  std::set<fs::path> places;
  std::error_code gone;  // or not readable
  for (fs::directory_iterator process("/proc", gone), end; process != end;
       process.increment(gone)) {
    struct stat status {};
    if (::stat(process->path().c_str(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(process->path() / "fd", ignored)) {
      const fs::path target = fs::read_symlink(entry.path(), ignored);
      if (is_agent_id(target.filename().string())) places.insert(target.parent_path());
    }
  }
  return places;
}

/// Removes the directories of ended agents, except the newest. A live agent's is locked.
void sweep(const PrivateDir& place) {
  std::vector<std::string> names = place.names();
  std::erase_if(names, [](const std::string& name) { return !is_agent_id(name); });
  if (names.size() <= ScratchDir::kKeptOfOthers) return;
  struct Left {
    std::int64_t changed = 0;
    PrivateDir directory;
  };
  std::vector<Left> left;
  for (const std::string& name : names) {
    std::optional<PrivateDir> directory = place.enter(name);
    struct stat status {};
    if (!directory || ::flock(directory->fd(), LOCK_EX | LOCK_NB) != 0 ||
        ::fstat(directory->fd(), &status) != 0) {
      continue;
    }
    left.push_back({status.st_mtime, std::move(*directory)});
  }
  std::ranges::sort(left, std::greater(), &Left::changed);
  for (std::size_t i = ScratchDir::kKeptOfOthers; i < left.size(); ++i) {
    std::error_code ignored;
    fs::remove_all(left[i].directory.path(), ignored);
  }
}

}  // namespace

std::optional<PrivateDir> PrivateDir::open(const fs::path& path, std::string& why_not) {
  return open_at(AT_FDCWD, path.string(), path, why_not);
}

std::optional<PrivateDir> PrivateDir::enter(const std::string& name) const {
  std::string why_not;
  return open_at(fd(), name, path_ / name, why_not);
}

std::optional<PrivateDir> PrivateDir::open_at(int parent,
                                              const std::string& name,
                                              fs::path path,
                                              std::string& why_not) {
  // The last name must not be a link. Only root can have put links before it: the rest is /tmp or
  // ours.
  Descriptor fd(
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == EACCES) why_not = "belongs to another user";
    if (errno == ENOTDIR || errno == ELOOP) why_not = "is not a directory";
    return std::nullopt;
  }
  // From here on check and use the descriptor, whatever happens to the name.
  PrivateDir opened(std::move(fd), std::move(path));
  struct stat status {};
  if (::fstat(opened.fd(), &status) != 0) {
    why_not = "cannot be looked at";
  } else if (status.st_uid != ::geteuid()) {
    why_not = "belongs to another user (uid " + std::to_string(status.st_uid) + ")";
  } else if ((status.st_mode & kWritableByOthers) != 0) {
    why_not = "can be written by other users";
  }
  if (!why_not.empty()) return std::nullopt;
  return opened;
}

std::vector<std::string> PrivateDir::names() const {
  return names_in(fd());
}

ScratchPlace make_scratch_place(const Environment& environment) {
  ScratchPlace place{usual_place(environment), ""};
  make_directory(place.path);
  std::string why_not;
  if (PrivateDir::open(place.path, why_not)) return place;
  const std::string usual = place.path.string();
  // Another user has taken the usual name in /tmp, or ours is open to others. Reuse a random
  // directory that we made before, so that jobs of one user see each other's locks.
  const std::vector<PrivateDir> others = random_places(environment);
  place.path = others.empty() ? make_random_place(environment) : others.front().path();
  place.warning = usual + " " + why_not + ": the control socket and locks of this job are in " +
                  place.path.string() + ", where ddp-launch status finds them.";
  return place;
}

std::vector<PrivateDir> find_scratch_places(const Environment& environment, std::string& warning) {
  std::vector<PrivateDir> places;
  const fs::path usual = usual_place(environment);
  std::string why_not;
  if (auto place = PrivateDir::open(usual, why_not)) places.push_back(std::move(*place));
  if (!why_not.empty()) warning = usual.string() + " " + why_not + ": what is in it is not shown.";
  for (PrivateDir& place : random_places(environment))
    places.push_back(std::move(place));
  if (runtime_directory(environment) || common_directory()) return places;
  // A job may have been started with another $TMPDIR than this shell has.
  for (const fs::path& path : places_in_use()) {
    const bool is_known = std::ranges::count(places, path, &PrivateDir::path) > 0;
    std::string somebody_else;
    auto place = is_known ? std::nullopt : PrivateDir::open(path, somebody_else);
    if (place) places.push_back(std::move(*place));
  }
  return places;
}

ScratchDir::ScratchDir(const fs::path& scratch_place, const std::string& agent_id)
    : path_(scratch_place / agent_id) {
  make_directory(path_);
  std::string why_not;
  held_ = PrivateDir::open(path_, why_not);
  if (!held_) {
    throw SystemError(path_.string() + " " + (why_not.empty() ? "is gone" : why_not) +
                      ". Start the job again; if that does not help, remove it.");
  }
  // The guard inherits the descriptor, and so holds the lock a moment longer than we do.
  (void)::flock(held_->fd(), LOCK_SH | LOCK_NB);
  if (const auto whole = PrivateDir::open(scratch_place, why_not)) sweep(*whole);
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

}  // namespace ddp::launcher
