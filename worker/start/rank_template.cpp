#include "worker/start/rank_template.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/files/descriptor.h"
#include "common/files/files.h"
#include "common/node/environment.h"
#include "common/sanitizer.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp::worker {
namespace {

constexpr const char* kSocketVariable = "DDP_TEMPLATE_FD";
constexpr int kFailed = 127;  // of a copy that the agent does not take
constexpr std::size_t kMostDescriptors = 8;
constexpr int kGetTidAddress = 40;  // PR_GET_TID_ADDRESS (linux/prctl.h)

struct Request {
  std::vector<std::string> words;
  std::vector<Descriptor> fds;  // a channel for the answer, stdout, stderr, then what words[1] says
};

std::string read_whole(int fd) {
  std::string text;
  std::array<char, 65536> piece;
  ssize_t size = 0;
  while ((size = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0)
    text.append(piece.data(), static_cast<std::size_t>(size));
  return text;
}

/// Nothing: the agent has closed the socket.
std::optional<Request> receive(int socket) {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  const cmsghdr* const head = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (head == nullptr) return std::nullopt;
  std::vector<int> fds((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(fds.data(), CMSG_DATA(head), fds.size() * sizeof(int));
  Request request;
  for (const int fd : fds)
    request.fds.emplace_back(fd);
  const std::string text = read_whole(fds.at(0));
  for (const std::string_view word : split(text, '\0'))
    request.words.emplace_back(word);
  request.fds.erase(request.fds.begin());
  return request;
}

int count_threads() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  return error ? 0 : static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

/// What the kernel forgets in a copy, or does not tell it, as long as glibc's fork() is not used.
struct ThreadPlaces {
  void* tid = nullptr;  // where glibc keeps the id of this thread
  void* robust_list = nullptr;
  std::size_t robust_size = 0;

  /// Whether the kernel tells them.
  bool find() {
    return ::prctl(kGetTidAddress, &tid, 0, 0, 0) == 0 &&
           ::syscall(SYS_get_robust_list, 0, &robust_list, &robust_size) == 0;
  }
};

/// As fork(2), but the copy is a child of our parent. Sound as long as there is one thread: no lock
/// is held. `cgroup`: to create it in, if that can be; -1: none.
pid_t copy_self(const ThreadPlaces& places, int cgroup, bool& is_in_cgroup) {
  clone_args arguments{};
  arguments.flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  arguments.child_tid = reinterpret_cast<std::uint64_t>(places.tid);
  pid_t pid = -1;
  is_in_cgroup = cgroup >= 0;
  if (is_in_cgroup) {
    clone_args inside = arguments;
    inside.flags |= CLONE_INTO_CGROUP;
    inside.cgroup = static_cast<std::uint64_t>(cgroup);
    pid = static_cast<pid_t>(::syscall(SYS_clone3, &inside, sizeof inside));
    is_in_cgroup = pid >= 0;
  }
  if (pid < 0) pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  if (pid < 0) {  // older kernels and containers refuse clone3(2)
    const auto flags = static_cast<long>(arguments.flags) | SIGCHLD;
#if defined(__x86_64__)
    pid = static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, places.tid, nullptr));
#else
    pid = static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, places.tid));
#endif
  }
  if (pid == 0) ::syscall(SYS_set_robust_list, places.robust_list, places.robust_size);
  return pid;
}

/// Errors: std::system_error.
void check(int result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), call);
}

/// A fixed cpu_set_t ends at 1024 CPUs (sched_setaffinity(2)).
void take_cpus(const std::string& list) {
  constexpr std::size_t kMostCpus = 1 << 16;
  if (list.empty()) return;
  std::vector<char> mask(CPU_ALLOC_SIZE(kMostCpus));
  auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
  for (const std::string_view cpu : split(list, ','))
    CPU_SET_S(parse_whole<std::size_t>(cpu).value_or(0), mask.size(), set);
  check(::sched_setaffinity(0, mask.size(), set), "sched_setaffinity");
}

/// Leaves open the streams and `targets`, by the number each shall have. Returns the new number of
/// `channel`, which stays open, too.
int place_descriptors(int channel, const std::map<int, int>& targets) {
  const int least = targets.rbegin()->first + 1;
  std::map<int, int> moved;
  for (const auto& [number, fd] : targets)
    check(moved[number] = ::fcntl(fd, F_DUPFD_CLOEXEC, least), "fcntl");
  check(channel = ::fcntl(channel, F_DUPFD_CLOEXEC, least), "fcntl");
  std::vector<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    open.push_back(parse_whole<int>(entry.path().filename().string()).value_or(0));
  for (const int fd : open) {
    const bool is_moved =
        std::ranges::any_of(moved, [fd](const auto& one) { return one.second == fd; });
    if (fd > STDERR_FILENO && fd != channel && !is_moved) ::close(fd);
  }
  for (const auto& [number, fd] : moved) {
    check(::dup2(fd, number), "dup2");
    ::close(fd);
  }
  return channel;
}

/// Where the kernel finds what /proc/PID/environ shows.
std::span<char> shown_environment() {
  constexpr std::size_t kEnvStart = 50 - 3;  // env_start and env_end (proc(5)), behind the name
  const std::string text = read_file("/proc/self/stat", 4096).value_or("");
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return {};
  const std::vector<std::string_view> fields = split(trim(text.substr(end_of_name + 2)), ' ');
  if (fields.size() < kEnvStart + 2) return {};
  const auto begin = parse_whole<std::uintptr_t>(fields[kEnvStart]).value_or(0);
  const auto end = parse_whole<std::uintptr_t>(fields[kEnvStart + 1]).value_or(0);
  return begin == 0 ? std::span<char>() : std::span(reinterpret_cast<char*>(begin), end - begin);
}

/// As with setenv(3), and where /proc/PID/environ shows it, if there is room.
void set_environment(std::span<std::string> entries) {
  const std::span<char> shown = shown_environment();
  std::string text;
  for (const std::string& entry : entries)
    text.append(entry).push_back('\0');
  ::clearenv();
  const bool has_room = text.size() <= shown.size();
  if (has_room) {
    std::ranges::fill(shown, '\0');
    std::ranges::copy(text, shown.begin());
  }
  char* place = shown.data();
  for (std::string& entry : entries) {
    ::putenv(has_room ? place : entry.data());
    place += entry.size() + 1;
  }
}

/// The copy, until it is the rank. The agent takes it by one byte; else it ends. Errors:
/// std::exception.
void become_rank(Request& request, bool is_in_cgroup, int& argc, char**& argv) {
  static std::vector<std::string> words;  // argv and environ point into it
  static std::vector<char*> arguments;
  words = std::move(request.words);
  const auto number = [](std::size_t index) {
    return parse_whole<int>(words.at(index)).value_or(-1);
  };
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != number(0)) ::_exit(kFailed);
  take_cpus(words.at(4));
  std::map<int, int> targets{{STDOUT_FILENO, request.fds.at(1).fd()},
                             {STDERR_FILENO, request.fds.at(2).fd()}};
  const std::string& kinds = words.at(1);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == 'p') targets[number(2)] = request.fds.at(3 + i).fd();
    if (kinds[i] == 'l') targets[number(3)] = request.fds.at(3 + i).fd();
  }
  const int channel = place_descriptors(request.fds.at(0).fd(), targets);
  for (Descriptor& closed : request.fds)
    (void)closed.release();
  const std::size_t first = 6 + static_cast<std::size_t>(number(5));
  for (std::size_t i = 6; i < first; ++i)
    arguments.push_back(words.at(i).data());
  argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  argv = arguments.data();
  set_environment(std::span(words).subspan(first));
  const std::string answer = std::to_string(::getpid()) + (is_in_cgroup ? " 1" : " 0");
  char taken = 0;
  if (::write(channel, answer.data(), answer.size()) < 0 || ::read(channel, &taken, 1) != 1)
    ::_exit(kFailed);
  ::close(channel);
}

void tell(int socket, const std::string& text) {
  ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace

void become_copy_of_template(int& argc, char**& argv) {
  const std::optional<std::string> given = find_variable(read_environment(), kSocketVariable);
  if (!given) return;
  const int socket = parse_whole<int>(trim(*given)).value_or(-1);
  ThreadPlaces places;
  if (kHasSanitizer || !places.find() || count_threads() != 1) {
    tell(socket, "unfit ddp-worker cannot be copied here");
    ::_exit(0);
  }
  tell(socket, "ready");
  while (true) {
    std::optional<Request> request = receive(socket);
    if (!request) ::_exit(0);
    const std::size_t at = request->words.at(1).find('c');
    const int cgroup = at == std::string::npos ? -1 : request->fds.at(3 + at).fd();
    bool is_in_cgroup = false;
    const pid_t pid = copy_self(places, cgroup, is_in_cgroup);
    if (pid == 0) {
      const int channel = request->fds.at(0).fd();
      try {
        return become_rank(*request, is_in_cgroup, argc, argv);
      } catch (const std::exception& error) {
        tell(channel, error.what());
        ::_exit(kFailed);
      }
    }
    if (pid < 0) tell(request->fds.at(0).fd(), std::string("clone: ") + std::strerror(errno));
  }
}

}  // namespace ddp::worker
