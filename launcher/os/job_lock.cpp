#include "launcher/os/job_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "common/error.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kPatience(400);  // a guard needs some 10 ms
constexpr int kPauseMs = 5;

/// A hash (FNV-1a), as a run id may have any bytes and any length, but a file name may not.
std::string file_name(const std::string& name) {
  std::uint64_t hash = 14695981039346656037U;
  for (const unsigned char byte : name)
    hash = (hash ^ byte) * 1099511628211U;
  return fmt::format("lock-{:016x}", hash);
}

/// False: the last holder has removed this file meanwhile, so the name is gone or another file's.
bool is_named(int fd, const std::filesystem::path& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

pid_t read_holder(int fd) {
  std::array<char, 32> text{};
  if (::pread(fd, text.data(), text.size() - 1, 0) <= 0) return 0;
  return std::atoi(text.data());
}

bool is_alive(pid_t pid) {
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

/// The pid that holds the lock of that name there; nothing: not held; 0: not known.
std::optional<pid_t> holder_in(const std::filesystem::path& directory, const std::string& file) {
  const std::string path = (directory / file).string();
  const Descriptor lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!lock || ::flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) return std::nullopt;
  return read_holder(lock.fd());
}

[[noreturn]] void refuse(const std::string& name, pid_t holder, const std::string& path) {
  const std::string who =
      is_alive(holder) ? "pid " + std::to_string(holder)
                       : "what pid " + std::to_string(holder) + " has left (fuser " + path + ")";
  throw SystemError("cannot start " + name + ": it is running already, locked by " + who +
                        ". Stop that, or give another --rdzv-id.",
                    exit_code::kRendezvous);
}

}  // namespace

JobLock::JobLock(const std::filesystem::path& directory,
                 const std::vector<std::filesystem::path>& others,
                 const std::string& name)
    : path_(directory / file_name(name)) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    fd_ = Descriptor(check(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600),
                           "open",
                           path_.string()));
    std::filesystem::path held = path_;
    std::optional<pid_t> holder;
    // flock(2) and not fcntl(2): it belongs to the open file, so workers, which inherit the
    // descriptor, hold it for as long as one of them lives, and no close() elsewhere in this
    // process drops it.
    if (::flock(fd(), LOCK_EX | LOCK_NB) != 0 || !is_named(fd(), path_)) holder = read_holder(fd());
    for (const std::filesystem::path& other : others) {
      if (holder) break;
      held = other / file_name(name);
      holder = holder_in(other, file_name(name));
    }
    if (!holder) break;
    fd_ = Descriptor();
    // If the holder is gone but the lock is held, its workers hold it; the guard is about to kill
    // them.
    if (is_alive(*holder) || std::chrono::steady_clock::now() >= deadline)
      refuse(name, *holder, held.string());
    ::poll(nullptr, 0, kPauseMs);
  }
  const std::string text = std::to_string(::getpid()) + "\n" + name + "\n";
  // Without the text the lock still holds, but its holder cannot be named.
  if (::ftruncate(fd(), 0) != 0 || ::pwrite(fd(), text.data(), text.size(), 0) < 0) return;
}

void JobLock::release() const {
  ::flock(fd(), LOCK_UN);  // of the open file, so also for those who have inherited it (flock(2))
}

JobLock::~JobLock() {
  fd_ = Descriptor();
  const Descriptor own(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  // Remove the file only while holding it: another process may have locked it since our close(),
  // and a third would then make a second file of that name.
  if (::flock(own.fd(), LOCK_EX | LOCK_NB) == 0 && is_named(own.fd(), path_))
    ::unlink(path_.c_str());
}

}  // namespace ddp::launcher
