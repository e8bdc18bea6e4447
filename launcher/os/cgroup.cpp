#include "launcher/os/cgroup.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "common/files/files.h"
#include "launcher/plan/start/cgroups.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKill = "cgroup.kill";  // Linux 5.14

/// Whether the cgroup is delegated to us. Root may write everywhere, but systemd manages all
/// cgroups that it has not marked as delegated. Source: systemd's CGROUP_DELEGATION.
bool is_given_away(const fs::path& directory) {
  if (::geteuid() != 0 || ::access("/run/systemd/system", F_OK) != 0) return true;
  const auto has = [&](const char* name) {
    return ::getxattr(directory.c_str(), name, nullptr, 0) > 0;
  };
  return has("trusted.delegate") || has("user.delegate");
}

bool is_delegated(const fs::path& directory) {
  return ::access(directory.c_str(), W_OK) == 0 &&
         ::access((directory / "cgroup.procs").c_str(), W_OK) == 0 && is_given_away(directory);
}

}  // namespace

JobCgroup::JobCgroup(const std::string& agent_id) {
  const std::vector<std::string> own = own_cgroups("");
  if (own.empty() || !is_delegated(own.front())) return;
  path_ = fs::path(own.front()) / ("ddp-" + agent_id);
}

void JobCgroup::make() {
  if (path_.empty()) return;
  std::error_code error;
  // Before Linux 5.14 there is no cgroup.kill, and a cgroup without it is of no use here.
  const bool is_made = fs::create_directory(path_, error);
  if (!is_made || ::access((path_ / kKill).c_str(), W_OK) != 0) give_up();
}

JobCgroup::~JobCgroup() {
  give_up();
}

void JobCgroup::begin_round(int round) {
  if (path_.empty()) return;
  fd_ = Descriptor();
  remove_cgroup(round_path_);
  round_path_ = path_ / ("round-" + std::to_string(round));
  std::error_code ignored;
  fs::create_directory(round_path_, ignored);
  fd_ = Descriptor(::open(round_path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void JobCgroup::release(pid_t pid) const {
  if (path_.empty()) return;
  std::ofstream(path_.parent_path() / "cgroup.procs") << pid;
}

void JobCgroup::give_up() {
  fd_ = Descriptor();
  remove_cgroup(path_);
  path_.clear();
  round_path_.clear();
}

void kill_cgroup(const fs::path& path) {
  if (path.empty()) return;
  const Descriptor file(::open((path / kKill).c_str(), O_WRONLY | O_CLOEXEC));
  const bool was_written = ::write(file.fd(), "1", 1) == 1;  // if not, other layers kill
  static_cast<void>(was_written);
}

bool remove_cgroup(const fs::path& path) {
  if (path.empty()) return true;
  std::vector<fs::path> below;  // of a worker that is itself a launcher
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.is_directory(ignored)) below.push_back(entry.path());
  for (const fs::path& one : below)
    remove_cgroup(one);
  // rmdir(2), not remove_all: files of a cgroup cannot be unlinked, and go with it. It fails while
  // a process other than a zombie is in it (the kernel's cgroup-v2.rst).
  return ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

const std::vector<std::string>& own_cgroups(const std::string& controller) {
  static const std::string proc_cgroup = read_file("/proc/self/cgroup").value_or("");
  static const std::string mounts = read_file("/proc/self/mountinfo").value_or("");
  static std::map<std::string, std::vector<std::string>> known;
  const auto [entry, is_new] = known.try_emplace(controller);
  if (is_new) entry->second = cgroup_directories(proc_cgroup, mounts, controller);
  return entry->second;
}

}  // namespace ddp::launcher
