// Also runs in the guard, which must stay small: files are read in pieces, and nothing is kept. Of
// os/ it includes process.h and process_state.h.
#include "launcher/os/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/node/process_signals.h"
#include "launcher/os/process.h"
#include "launcher/os/process_state.h"

namespace ddp::launcher {
namespace {

/// Reads `path` in pieces through `use(std::string_view)`, which returns true to stop. Errors:
/// false when it cannot be read.
template <typename Use>
bool read_pieces(const char* path, Use use) {
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  std::array<char, 4096> buffer;
  bool stop = false;
  while (!stop) {
    const ssize_t got = ::read(file.fd(), buffer.data(), buffer.size());
    if (got <= 0) break;
    stop = use(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
  }
  return true;
}

struct Path {
  std::array<char, 64> text{};
  Path(pid_t pid, const char* name) {
    std::snprintf(text.data(), text.size(), "/proc/%d/%s", static_cast<int>(pid), name);
  }
};

/// Whether the environment holds `variable`. Entries end with a null byte, and a piece may end
/// inside one.
bool has_variable(pid_t pid, const std::string& variable) {
  const Path path(pid, "environ");
  std::size_t matched = 0;  // bytes of the current entry that agree so far
  bool differs = false;
  bool found = false;
  read_pieces(path.text.data(), [&](std::string_view piece) {
    for (const char c : piece) {
      if (c == '\0') {
        found = !differs && matched == variable.size();
        if (found) return true;
        matched = 0;
        differs = false;
      } else if (!differs && matched < variable.size() && c == variable[matched]) {
        ++matched;
      } else {
        differs = true;
      }
    }
    return false;
  });
  return found;
}

template <typename Use>
void for_each_process(Use use) {
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir("/proc"), ::closedir);
  while (const dirent* const entry = list ? ::readdir(list.get()) : nullptr) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0) use(pid);
  }
}

SessionMember member_of(pid_t pid) {
  const ProcessState state = read_process_state(pid);
  return {pid, state.session, state.started};
}

/// The sessions during one scan of all processes.
class Sessions {
 public:
  explicit Sessions(std::span<Session> sessions) {
    for (Session& session : sessions) {
      const SessionMember leader = member_of(session.number);
      const bool is_gone = leader.session == 0;  // not readable
      if (!is_gone && disproves(session, leader)) continue;
      looks_.push_back({&session, !is_gone && proves(session, leader), false});
    }
  }
  /// Whether the process belongs to one of the sessions. A member that is seen before its session
  /// is proved is found by the next scan.
  [[nodiscard]] bool has(const SessionMember& process) {
    for (Look& look : looks_) {
      if (look.session->number != process.session) continue;
      look.is_held = look.is_held || proves(*look.session, process);
      look.has_missed = look.has_missed || !look.is_held;
      return look.is_held;
    }
    return false;
  }
  /// Sets held_until of all proved sessions to `begin`, the begin of the scan. Returns whether one
  /// of their members was missed.
  bool end(std::uint64_t begin) {
    bool has_missed = false;
    for (Look& look : looks_) {
      if (!look.is_held) continue;
      look.session->held_until = begin;
      has_missed = has_missed || look.has_missed;
    }
    return has_missed;
  }

 private:
  struct Look {
    Session* session = nullptr;
    bool is_held = false;  // its number is still its own
    bool has_missed = false;
  };
  std::vector<Look> looks_;
};

/// Calls `use(pid, pidfd)` for every live process that is proved ours. Returns whether there are
/// more, which another scan finds.
template <typename Use>
bool for_each_descendant(const std::string& variable, std::span<Session> sessions, Use use) {
  const std::uint64_t begin = boot_ticks();
  Sessions known(sessions);
  const pid_t self = ::getpid();
  for_each_process([&](pid_t pid) {
    if (pid == self) return;
    // Open the pidfd before reading: if the pid is reused in between, the pidfd still means the
    // first process, which is dead, and no other process is hit.
    const Descriptor pidfd(open_pidfd(pid));
    if (!pidfd) return;
    const ProcessState stat = read_process_state(pid);
    const bool in_session = known.has({pid, stat.session, stat.started});
    const bool is_alive = stat.state != 'Z' && stat.state != 'X';
    // An empty `variable` must match nothing: a process that overwrites its environment leaves
    // empty entries.
    const bool is_ours = in_session || (!variable.empty() && has_variable(pid, variable));
    if (is_alive && is_ours) use(pid, pidfd.fd());
  });
  return known.end(begin);
}

SessionProcess describe_member(pid_t pid) {
  const ProcessState state = read_process_state(pid);
  SessionProcess process;
  process.pid = pid;
  process.session = state.session;
  process.parent = state.parent;
  process.caught = caught_signals(pid);
  std::error_code ignored;
  process.executable = std::filesystem::read_symlink(Path(pid, "exe").text.data(), ignored);
  process.command = command_of(pid);
  return process;
}

/// Forbids a core file of a process that we end. The limit is 1, not 0, which also stops the
/// programs to which core_pattern pipes (0: core(5); 1: fs/coredump.c). False: the limit is not
/// ours to change.
bool forbid_core(pid_t pid) {
  rlimit limit{};
  if (::prlimit(pid, RLIMIT_CORE, nullptr, &limit) != 0) return false;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, 1);
  limit.rlim_cur = limit.rlim_max;
  return ::prlimit(pid, RLIMIT_CORE, &limit, nullptr) == 0;
}

/// The user as whom the process opens files and sockets (the fourth Uid of proc(5)). The owner of
/// its /proc directory would be root if it has changed its user itself.
std::optional<uid_t> user_of(pid_t pid) {
  std::ifstream file(Path(pid, "status").text.data());
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    uid_t real = 0, effective = 0, saved = 0, of_files = 0;
    if (fields >> name && name == "Uid:" && fields >> real >> effective >> saved >> of_files)
      return of_files;
  }
  return std::nullopt;
}

std::string first_line(pid_t pid, const char* name) {
  std::ifstream file(Path(pid, name).text.data());
  std::string line;
  std::getline(file, line);
  return line;
}

/// Whether the process is the guard of another agent. It must outlive that agent, to kill its
/// workers.
bool is_guard(pid_t pid) {
  if (first_line(pid, "comm") != kGuardName) return false;
  std::error_code error;
  const auto program = std::filesystem::read_symlink(Path(pid, "exe").text.data(), error);
  return !error && program == std::filesystem::read_symlink("/proc/self/exe", error) && !error;
}

}  // namespace

Session session_of(pid_t leader) {
  return {leader, read_process_state(leader).started, 0};
}

std::string command_of(pid_t pid) {
  std::ifstream file(Path(pid, "cmdline").text.data());
  std::string words{std::istreambuf_iterator<char>(file), {}};
  while (words.ends_with('\0'))
    words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words;
}

std::string variable_of(pid_t pid, const std::string& name) {
  std::ifstream file(Path(pid, "environ").text.data());
  const std::string head = name + "=";
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.starts_with(head)) return entry.substr(head.size());
  return "";
}

std::uint64_t boot_ticks() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);  // the kernel's clock for start times
  constexpr std::uint64_t kSecond = 1'000'000'000;
  // Rounded down, like starttime in /proc/PID/stat, so that the two can be compared.
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * ticks +
         static_cast<std::uint64_t>(now.tv_nsec) / (kSecond / ticks);
}

std::size_t kill_descendants(const std::string& variable,
                             std::span<Session> sessions,
                             std::span<const pid_t> spared) {
  std::size_t count = 0;
  const bool has_missed = for_each_descendant(variable, sessions, [&](pid_t pid, int pidfd) {
    if (std::ranges::find(spared, pid) != spared.end()) return;
    ++count;
    signal_pidfd(pidfd, SIGKILL);
  });
  return has_missed ? count + 1 : count;
}

std::vector<SessionProcess> session_processes(std::vector<Session> sessions) {
  std::vector<SessionProcess> found;
  for_each_descendant("", sessions, [&](pid_t pid, int) { found.push_back(describe_member(pid)); });
  return found;
}

bool signal_in_session(pid_t pid, const Session& session, int signal) {
  const Descriptor pidfd(open_pidfd(pid));
  if (!pidfd) return false;
  const bool is_ours = read_process_state(pid).session == session.number &&
                       proves(session, member_of(session.number));
  const bool is_sent =
      is_ours && (signal != SIGABRT || forbid_core(pid)) && signal_pidfd(pidfd.fd(), signal);
  // Not always: a debugger stops its program at SIGCONT, too.
  if (is_sent && read_process_state(pid).state == 'T') signal_pidfd(pidfd.fd(), SIGCONT);
  return is_sent;
}

void become_subreaper() {
  // Orphans below us become our children, not those of init (prctl(2)), so we can find, kill and
  // reap them.
  check(::prctl(PR_SET_CHILD_SUBREAPER, 1), "prctl", "PR_SET_CHILD_SUBREAPER");
}

std::vector<pid_t> children() {
  return children_of(::getpid());  // an orphan may go to any of our threads
}

std::set<uid_t> users_of_descendants() {
  std::map<pid_t, pid_t> parents;
  for_each_process([&](pid_t pid) { parents.emplace(pid, read_process_state(pid).parent); });
  const pid_t self = ::getpid();
  const uid_t own = ::geteuid();
  std::set<uid_t> users;
  for (const auto& [pid, parent] : parents) {
    // Read one after the other, so the lines may be of different moments, and even have a ring.
    std::size_t steps = 0;
    auto above = parents.find(parent);
    while (above != parents.end() && above->first != self && ++steps < parents.size())
      above = parents.find(above->second);
    if (above == parents.end() || above->first != self) continue;
    const std::optional<uid_t> user = user_of(pid);
    if (user && *user != own) users.insert(*user);
  }
  return users;
}

std::vector<Session> sessions_below(std::span<const pid_t> except, pid_t also) {
  const std::uint64_t begin = boot_ticks();
  std::map<pid_t, ProcessState> states;
  for_each_process([&](pid_t pid) { states.emplace(pid, read_process_state(pid)); });
  const pid_t self = ::getpid();
  const auto is_below = [&](pid_t pid) {
    // Read one after the other, so the lines may be of different moments, and even have a ring.
    for (std::size_t steps = 0; steps < states.size(); ++steps) {
      if (std::ranges::find(except, pid) != except.end()) return false;
      const auto found = states.find(pid);
      if (found == states.end()) return false;
      pid = found->second.parent;
      if (pid == self || (also != 0 && pid == also)) return true;
    }
    return false;
  };
  const pid_t own_session = ::getsid(0);
  std::map<pid_t, Session> sessions;
  for (const auto& [pid, state] : states) {
    const bool is_alive = state.state != 'Z' && state.state != 'X' && state.state != '?';
    if (!is_alive || pid == self || state.session == own_session || state.session == 0) continue;
    const auto known = sessions.find(state.session);
    if (known == sessions.end() && (!is_below(pid) || is_guard(pid))) continue;
    Session& session = sessions[state.session];
    session.number = state.session;
    if (pid == state.session) session.started = state.started;
    // The process was in this session when it started, or leads it: the number was the session's
    // then.
    session.held_until = std::max({session.held_until, begin, state.started});
  }
  std::vector<Session> found;
  for (const auto& [number, session] : sessions)
    found.push_back(session);
  return found;
}

std::string describe_process(pid_t pid) {
  const std::string wchan = first_line(pid, "wchan");
  return "pid " + std::to_string(pid) + " (" + first_line(pid, "comm") + ", state " +
         read_process_state(pid).state + (wchan.empty() || wchan == "0" ? "" : ", in " + wchan) +
         ")";
}

}  // namespace ddp::launcher
