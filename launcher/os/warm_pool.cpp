#include "launcher/os/warm_pool.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>

#include "common/error.h"
#include "common/files/files.h"
#include "common/node/process_signals.h"
#include "common/text/parse_whole.h"
#include "launcher/os/descriptors.h"
#include "launcher/os/process.h"
#include "launcher/plan/start/template_messages.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDirectory = "warm";
constexpr std::size_t kNameLength = 16;
constexpr std::size_t kMostKey = 1 << 18;  // bytes; a socket takes fewer at once (socket(7))
constexpr std::time_t kOldSeconds = 600;   // more than imports may take

/// Through the directory's descriptor: a path of a socket has at most 107 characters (unix(7)).
sockaddr_un address_in(const PrivateDir& directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory.fd()) + "/" + name;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

std::string name_of(const std::string& key) {
  std::ostringstream name;
  name << std::hex << std::hash<std::string>()(key);
  std::string text = name.str();
  return std::string(kNameLength - std::min(kNameLength, text.size()), '0') + text;
}

bool is_key_name(const std::string& name) {
  return name.size() == kNameLength && name.find_first_not_of("0123456789abcdef") == name.npos;
}

std::string text_of(const char* path) {
  return read_file(path).value_or("");
}

/// Its share of memory, in bytes.
std::uint64_t share_of_memory(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "Pss:" && file >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

Descriptor make_socket() {
  return Descriptor(check(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "socket", "warm"));
}

}  // namespace

std::optional<std::string> receive_packet(int socket,
                                          std::chrono::milliseconds limit,
                                          std::size_t most) {
  if (!is_readable(socket, limit)) return std::nullopt;
  std::string packet(most, '\0');
  const ssize_t size = ::recv(socket, packet.data(), packet.size(), MSG_DONTWAIT);
  if (size <= 0) return std::nullopt;
  packet.resize(static_cast<std::size_t>(size));
  return packet;
}

pid_t listener_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.uid == ::geteuid() ? peer.pid : 0;
}

std::optional<WarmPool> WarmPool::open(const fs::path& scratch_place) {
  std::string ignored;
  const std::optional<PrivateDir> parent = PrivateDir::open(scratch_place, ignored);
  if (!parent) return std::nullopt;
  ::mkdirat(parent->fd(), kDirectory, 0700);
  std::optional<PrivateDir> directory = parent->enter(kDirectory);
  if (!directory) return std::nullopt;
  return WarmPool(std::move(*directory));
}

Descriptor WarmPool::connect(const std::string& name) const {
  Descriptor socket = make_socket();
  const sockaddr_un address = address_in(directory_, name);
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  ::fcntl(socket.fd(), F_SETFL, O_NONBLOCK);  // one that is stopped may have a full queue
  if (::connect(socket.fd(), at, sizeof address) != 0) {
    const bool is_gone = errno == ECONNREFUSED;
    if (is_gone) ::unlinkat(directory_.fd(), name.c_str(), 0);
    return {};
  }
  return listener_of(socket.fd()) > 0 ? std::move(socket) : Descriptor();
}

Descriptor WarmPool::find(const std::string& key) const {
  return connect(name_of(key));
}

void WarmPool::make_room(const std::string& key) const {
  const std::string name = name_of(key);
  std::vector<std::pair<timespec, std::string>> others;
  for (const std::string& other : directory_.names()) {
    struct stat status {};
    if (other == name || !is_key_name(other)) continue;
    if (::fstatat(directory_.fd(), other.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      others.emplace_back(status.st_mtim, other);
  }
  std::ranges::sort(others, [](const auto& one, const auto& other) {
    return std::pair(one.first.tv_sec, one.first.tv_nsec) >
           std::pair(other.first.tv_sec, other.first.tv_nsec);
  });
  for (std::size_t i = kMost - 1; i < others.size(); ++i)
    stop(others[i].second);
}

WarmPool::BoundSocket WarmPool::bind_socket(const std::string& key,
                                            std::chrono::seconds idle) const {
  const std::string name = name_of(key);
  stop(name);  // it does not fit any more
  make_room(key);
  tidy();
  BoundSocket bound;
  bound.socket = make_socket();
  const std::string own = name + "." + std::to_string(::getpid());
  const sockaddr_un address = address_in(directory_, own);
  check(::bind(bound.socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
        "bind",
        (directory_.path() / own).string());
  bound.names = {
      (directory_.path() / name).string(), (directory_.path() / own).string(), idle, key};
  return bound;
}

void WarmPool::tidy() const {
  for (const std::string& name : directory_.names()) {
    const std::size_t point = name.find('.');
    const pid_t agent =
        point == name.npos ? 0 : parse_whole<pid_t>(name.substr(point + 1)).value_or(0);
    // A pid of another container is not known here.
    struct stat status {};
    const bool is_old =
        ::fstatat(directory_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        ::time(nullptr) - status.st_mtim.tv_sec > kOldSeconds && !signal_process(agent, 0);
    const bool is_gone = agent > 0 && (agent == ::getpid() || is_old);
    if (is_gone) ::unlinkat(directory_.fd(), name.c_str(), 0);
  }
}

std::vector<WarmPool::OtherKey> WarmPool::other_keys() const {
  std::vector<OtherKey> keys;
  for (const std::string& name : directory_.names()) {
    const Descriptor socket = is_key_name(name) ? connect(name) : Descriptor();
    if (!socket || ::send(socket.fd(), "key", 3, MSG_NOSIGNAL) != 3) continue;
    if (auto key = receive_packet(socket.fd(), kAnswerLimit, kMostKey))
      keys.push_back({listener_of(socket.fd()), std::move(*key)});
  }
  return keys;
}

std::optional<WarmPool::Entry> WarmPool::describe(const std::string& name) const {
  const Descriptor socket = connect(name);
  if (!socket || ::send(socket.fd(), "status", 6, MSG_NOSIGNAL) != 6) return std::nullopt;
  const std::optional<std::string> packet = receive_packet(socket.fd(), kAnswerLimit);
  const auto facts = packet ? read_warm_template(*packet) : std::nullopt;
  if (!facts) return std::nullopt;
  return Entry{*facts, share_of_memory(facts->pid)};
}

std::vector<WarmPool::Entry> WarmPool::list() const {
  std::vector<Entry> entries;
  for (const std::string& name : directory_.names()) {
    if (const auto entry = is_key_name(name) ? describe(name) : std::nullopt)
      entries.push_back(*entry);
  }
  return entries;
}

/// A template that does not answer is killed: the listener is surely a template of ours.
void WarmPool::stop(const std::string& name) const {
  const Descriptor socket = connect(name);
  if (!socket) return;
  const Descriptor process(open_pidfd(listener_of(socket.fd())));
  const auto has_ended = [&] { return is_readable(process.fd(), kAnswerLimit); };
  if (::send(socket.fd(), "stop", 4, MSG_NOSIGNAL) == 4 && has_ended()) return;
  signal_pidfd(process.fd(), SIGKILL);
  has_ended();
  ::unlinkat(directory_.fd(), name.c_str(), 0);
}

std::vector<WarmPool::Entry> WarmPool::stop() const {
  std::vector<Entry> entries = list();
  for (const std::string& name : directory_.names()) {
    if (is_key_name(name)) stop(name);
  }
  return entries;
}

std::string inherited_state(const fs::path& executable) {
  std::ostringstream state;
  std::istringstream lines(text_of("/proc/self/status"));
  for (std::string line; std::getline(lines, line);) {
    for (const char* const name : {"Umask",
                                   "Uid",
                                   "Gid",
                                   "Groups",
                                   "Cap",
                                   "NoNewPrivs",
                                   "Seccomp:",
                                   "SigBlk",
                                   "SigIgn",
                                   "THP_enabled",
                                   "Cpus_allowed:",
                                   "Mems_allowed:"}) {
      if (line.starts_with(name)) state << line << "\n";
    }
  }
  for (const char* const space : {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}) {
    std::error_code ignored;
    state << "namespace " << space << ": "
          << fs::read_symlink(fs::path("/proc/self/ns") / space, ignored).string() << "\n";
  }
  struct stat directory {};
  struct stat input {};
  struct stat program {};
  ::stat(".", &directory);
  ::stat(executable.c_str(), &program);
  ::fstat(STDIN_FILENO, &input);
  // Of memory policies numa_maps shows the one of each piece; the program's own will do.
  std::ifstream pieces("/proc/self/numa_maps");
  std::string address, policy;
  pieces >> address >> policy;
  std::istringstream limits(text_of("/proc/self/limits"));
  for (std::string line; std::getline(limits, line);)
    state << "limits: " << line << "\n";
  std::istringstream cgroups(text_of("/proc/self/cgroup"));
  for (std::string line; std::getline(cgroups, line);)
    state << "cgroup: " << line << "\n";
  state << "memory policy: " << policy << "\n"
        << "priority: " << ::getpriority(PRIO_PROCESS, 0) << " " << ::sched_getscheduler(0) << " "
        << ::syscall(SYS_ioprio_get, 1, 0) << "\n"
        << "personality: " << ::personality(0xffffffff) << "\n"
        << "core filter: " << text_of("/proc/self/coredump_filter")
        << "out-of-memory score: " << text_of("/proc/self/oom_score_adj") << kWorkingDirectory
        << fs::current_path().string() << "\n"
        << "inode of the working directory: " << directory.st_dev << " " << directory.st_ino << "\n"
        << "kind of stdin: " << (input.st_mode & S_IFMT) << " " << ::isatty(STDIN_FILENO) << "\n"
        << "interpreter's file: " << executable.string() << " " << program.st_ino << " "
        << program.st_mtim.tv_sec << "\n";
  return state.str();
}

}  // namespace ddp::launcher
