#include "launcher/os/post_mortem.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <system_error>

#include "common/files/descriptor.h"
#include "common/files/files.h"
#include "common/node/identity.h"
#include "launcher/os/cgroup.h"
#include "launcher/plan/failure/death_facts.h"
#include "launcher/plan/start/cgroups.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKernelLines = 5;  // of one report

/// The counter oom_kill of a cgroup, v2 or v1.
std::optional<std::int64_t> oom_kills_of(const fs::path& cgroup) {
  if (const auto events = read_file(cgroup / "memory.events"))
    return read_entry(*events, "oom_kill");
  return read_entry(read_file(cgroup / "memory.oom_control").value_or(""), "oom_kill");
}

/// The OOM kills of our own cgroup; v2 includes those below it.
std::uint64_t count_oom_kills() {
  for (const char* const controller : {"", "memory"}) {
    const auto own = own_cgroups(controller);
    const auto count = own.empty() ? std::nullopt : oom_kills_of(own.front());
    if (count) return static_cast<std::uint64_t>(*count);
  }
  return 0;
}

/// The first facts about the process, at most kKernelLines.
std::vector<std::string> kernel_facts(pid_t pid, KernelLog& log) {
  std::vector<std::string> facts;
  for (const std::string& line : log.lines()) {
    std::string fact = kernel_fact(line, pid);
    if (!fact.empty()) facts.push_back(std::move(fact));
    if (facts.size() == kKernelLines) break;
  }
  return facts;
}

/// Whether the signal writes a core file by default (signal(7)).
bool dumps_core(int signal) {
  constexpr std::array kSignals{SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
  return std::ranges::find(kSignals, signal) != kSignals.end();
}

/// The newest file that matches.
std::string find_file(const std::string& pattern) {
  glob_t found{};
  std::string newest;
  fs::file_time_type newest_time{};
  // The path has a * for unknown parts (core(5): %t, %h in a container).
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      std::error_code error;
      const auto time = fs::last_write_time(found.gl_pathv[i], error);
      if (error || (!newest.empty() && time < newest_time)) continue;
      newest = found.gl_pathv[i];
      newest_time = time;
    }
  }
  ::globfree(&found);
  return newest;
}

std::string core_finding(const DeadWorker& worker) {
  if (!dumps_core(worker.status.signal)) return "";
  const std::string pattern = read_file("/proc/sys/kernel/core_pattern").value_or("core");
  // WCOREDUMP (`core`) comes from the kernel. If it is false, the limit is the usual reason, as its
  // default is 0.
  if (!worker.status.core) {
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_cur == 0 ? "no core file: the limit is 0. Allow one: ulimit -c unlimited"
                               : "";
  }
  // The kernel pipes the core to a program (core(5)), which alone knows where it is stored.
  if (pattern.starts_with('|')) {
    return "core dump handed to " + pattern.substr(1, pattern.find_first_of(" \n") - 1) +
           ". With systemd: coredumpctl debug " + std::to_string(worker.pid);
  }
  CoreFacts facts;
  facts.pid = worker.pid;
  facts.signal = worker.status.signal;
  facts.user = ::getuid();
  facts.group = ::getgid();
  facts.host = host_name();
  facts.executable = worker.executable;
  facts.directory = worker.directory.string();
  const bool uses_pid = read_file("/proc/sys/kernel/core_uses_pid").value_or("0").starts_with('1');
  const std::string path = core_path(pattern, uses_pid, facts);
  const std::string found = find_file(path);
  return found.empty() ? "core file: not found as " + path : "core file: " + found;
}

Space space_of(const fs::path& path) {
  struct statvfs facts {};
  if (::statvfs(path.c_str(), &facts) != 0) return {};
  return {facts.f_frsize * facts.f_blocks, facts.f_frsize * facts.f_bavail};
}

void add(std::vector<std::string>& lines, const std::string& line) {
  if (!line.empty()) lines.push_back(line);
}

}  // namespace

// EPERM if kernel.dmesg_restrict is 1 and we are not root.
KernelLog KernelLog::from_now() {
  KernelLog log;
  log.log_ = Descriptor(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (log.log_) ::lseek(log.log_.fd(), 0, SEEK_END);
  return log;
}

/// Each read of /dev/kmsg gives one record, or EPIPE if it was overwritten meanwhile.
const std::vector<std::string>& KernelLog::lines() {
  std::array<char, 8192> buffer;
  while (log_) {
    const ssize_t got = ::read(log_.fd(), buffer.data(), buffer.size());
    if (got < 0 && errno == EPIPE) continue;
    if (got <= 0) break;
    auto text = read_kernel_record(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    if (text) lines_.push_back(std::move(*text));
  }
  return lines_;
}

Baseline take_baseline() {
  return {count_oom_kills(), KernelLog::from_now()};
}

std::string find_gpu_error(Baseline& before) {
  std::string newest;
  for (const std::string& line : before.kernel_log.lines())
    if (is_gpu_broken(line)) newest = line;
  return newest;
}

std::vector<std::string> post_mortem(const DeadWorker& worker, Baseline& before) {
  std::vector<std::string> lines = kernel_facts(worker.pid, before.kernel_log);
  const bool is_in_log = std::ranges::any_of(
      lines, [](const std::string& line) { return line.starts_with("killed by the kernel"); });
  const std::uint64_t kills = count_oom_kills();
  if (worker.status.signal == SIGKILL && kills > before.oom_kills && !is_in_log) {
    const std::uint64_t count = kills - before.oom_kills;
    add(lines,
        "the kernel killed " + std::to_string(count) + (count == 1 ? " process" : " processes") +
            " of this cgroup for lack of memory since the start");
  }
  add(lines, core_finding(worker));
  // A write to a mapped page for which /dev/shm has no room raises SIGBUS.
  if (worker.status.signal == SIGBUS) add(lines, shared_memory_fact(space_of("/dev/shm")));
  const Space disk = space_of(worker.directory);
  if (disk.total > 0 && disk.free == 0)
    add(lines, "the disk of its working directory " + worker.directory.string() + " is full");
  return lines;
}

}  // namespace ddp::launcher
