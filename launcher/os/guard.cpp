// The guard uses common/node/helper_process to fork, os/descendants to scan and os/cgroup to kill.
// Usually run/ puts such parts together, but the guard runs when no agent is left to do so.
#include "launcher/os/guard.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/node/environment.h"
#include "common/node/helper_process.h"
#include "common/node/process_signals.h"
#include "launcher/os/cgroup.h"
#include "launcher/os/descendants.h"

namespace ddp::launcher {

std::chrono::nanoseconds boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

namespace {

constexpr std::size_t kTextBytes = 1024;
constexpr int kGuardWaitMs = 100;  // for a stopped guard to read again
constexpr std::chrono::seconds kKillTime(30);
constexpr std::chrono::milliseconds kRemoveTime(500);

/// A message to the guard; its text follows. Both together are smaller than PIPE_BUF, so they are
/// written whole.
struct Message {
  char kind = 0;  // kAgentId, kScratch, kCgroup, kWatch, kDaemon, kForget, kLease, kDisarm
  Session session;
  std::int64_t lease_end = 0;
  std::size_t text_bytes = 0;  // at most kTextBytes
};
constexpr char kAgentId = 'i';
constexpr char kScratch = 's';
constexpr char kCgroup = 'c';
constexpr char kWatch = 'w';
constexpr char kDaemon = 'd';
constexpr char kForget = 'f';
constexpr char kLease = 'l';
constexpr char kDisarm = 'b';

/// What the agent has told the guard.
struct Guarded {
  std::string variable;  // DDP_AGENT_ID=...
  std::string scratch;
  std::string cgroup;
  std::vector<Session> sessions;
  std::vector<Session> daemons;
  std::int64_t lease_end = 0;
};

void erase(std::vector<Session>& sessions, pid_t number) {
  std::erase_if(sessions, [number](const Session& session) { return session.number == number; });
}

bool has(const std::vector<Session>& sessions, pid_t number) {
  return std::ranges::any_of(sessions,
                             [number](const Session& session) { return session.number == number; });
}

/// Sets the timer; `end` 0: never.
void arm(int timer, std::int64_t end) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const itimerspec when{{0, 0}, {end / kSecond, end % kSecond}};
  // CLOCK_BOOTTIME goes on while the machine sleeps (timerfd_create(2)): a node that was suspended
  // for longer than its lease kills its workers when it wakes, before they reach a job that has
  // gone on without them.
  ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, nullptr);
}

enum class Heard { more, watch, lease, disarm, lease_over, end };

/// Reads the agent's messages from the pipe, many at a time.
class AgentMessages {
 public:
  explicit AgentMessages(int fd) : fd_(fd) {}

  /// The next message and its text, if all of it has been read.
  [[nodiscard]] std::optional<std::pair<Message, std::string>> next() {
    Message message;
    if (bytes_.size() < sizeof message) return std::nullopt;
    std::memcpy(&message, bytes_.data(), sizeof message);
    const std::size_t whole = sizeof message + message.text_bytes;
    if (bytes_.size() < whole) return std::nullopt;
    std::string text = bytes_.substr(sizeof message, message.text_bytes);
    bytes_.erase(0, whole);
    return std::pair(message, std::move(text));
  }

  /// Waits for more messages, or the timer's end. Messages that have been sent come first, so a
  /// late guard loses none.
  Heard wait(int timer) {
    std::array<pollfd, 2> entries{pollfd{fd_, POLLIN, 0}, pollfd{timer, POLLIN, 0}};
    while (::poll(entries.data(), entries.size(), -1) < 0)
      if (errno != EINTR) return Heard::end;
    if (entries[0].revents == 0) return Heard::lease_over;
    std::array<char, PIPE_BUF> piece;
    ssize_t got = -1;
    do {
      got = ::read(fd_, piece.data(), piece.size());
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return Heard::end;
    bytes_.append(piece.data(), static_cast<std::size_t>(got));
    return Heard::more;
  }

 private:
  int fd_;
  std::string bytes_;  // read, not yet returned
};

/// Takes one message, or the end of the lease or of the agent.
Heard listen(AgentMessages& messages, int timer, Guarded& guarded) {
  std::optional<std::pair<Message, std::string>> next = messages.next();
  while (!next) {
    if (const Heard heard = messages.wait(timer); heard != Heard::more) return heard;
    next = messages.next();
  }
  auto& [message, text] = *next;
  switch (message.kind) {
    case kAgentId:
      guarded.variable = "DDP_AGENT_ID=" + text;
      return Heard::more;
    case kScratch:
      guarded.scratch = std::move(text);
      return Heard::more;
    case kCgroup:
      guarded.cgroup = std::move(text);
      return Heard::more;
    case kWatch:
      guarded.sessions.push_back(message.session);
      return Heard::watch;
    case kDaemon:
      erase(guarded.daemons, message.session.number);
      guarded.daemons.push_back(message.session);
      return Heard::more;
    case kForget:
      erase(guarded.sessions, message.session.number);
      erase(guarded.daemons, message.session.number);
      return Heard::more;
    case kLease:
      guarded.lease_end = message.lease_end;
      return Heard::lease;
    default:
      return Heard::disarm;
  }
}

/// Notes that all numbers are still their sessions': until now the agent has reaped no leader
/// without telling us before. From here on that must be proved.
void hold_sessions(Guarded& guarded) {
  const std::uint64_t now = boot_ticks();
  for (Session& session : guarded.sessions)
    session.held_until = now;
}

/// Kills all covered processes. The agent itself is not hit, as its environment does not hold its
/// own id.
void kill_all(Guarded& guarded) {
  // A daemon's number is its own only while its leader, or a member that was seen, lives. A
  // worker's number is kept until the agent reaps it.
  std::vector<Session> sessions = guarded.sessions;
  sessions.insert(sessions.end(), guarded.daemons.begin(), guarded.daemons.end());
  // A process that is just being forked may escape one scan, so two must be empty. A process that
  // does not die in this time is in an uninterruptible sleep, and dies of the pending SIGKILL when
  // it wakes up.
  const auto deadline = std::chrono::steady_clock::now() + kKillTime;
  for (int empty_scans = 0; empty_scans < 2 && std::chrono::steady_clock::now() < deadline;) {
    kill_cgroup(guarded.cgroup);
    const std::size_t found = kill_descendants(guarded.variable, sessions);
    empty_scans = found == 0 ? empty_scans + 1 : 0;
    if (found != 0) ::poll(nullptr, 0, 1);  // give the kernel a millisecond to end them
  }
}

/// Serves the agent until it disarms (true) or ends (false).
bool attend(int fd, int timer, Guarded& guarded) {
  AgentMessages messages(fd);
  bool is_over = false;
  while (true) {
    const Heard heard = listen(messages, timer, guarded);
    if (heard == Heard::disarm) return true;
    if (heard == Heard::end || heard == Heard::lease_over) hold_sessions(guarded);
    if (heard == Heard::end) return false;
    if (heard == Heard::lease && !is_over) arm(timer, guarded.lease_end);
    if (heard == Heard::lease_over) {
      is_over = true;
      arm(timer, 0);
    }
    // Also after the lease: an agent that was stopped while it started workers continues with the
    // next one.
    if (heard == Heard::lease_over || (heard == Heard::watch && is_over)) kill_all(guarded);
  }
}

/// Drops the launcher's code from memory; the pages that the guard runs come back one by one. Only
/// executable mappings, as they alone are surely unchanged from the file (relocated data is not).
void drop_code() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return;
  std::array<char, 512> line;
  while (std::fgets(line.data(), static_cast<int>(line.size()), maps) != nullptr) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::array<char, 8> access{};
    const bool is_code =
        std::sscanf(line.data(), "%lx-%lx %7s", &begin, &end, access.data()) == 3 &&
        std::string_view(access.data()) == "r-xp" && std::strchr(line.data(), '/') != nullptr;
    if (is_code) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  std::fclose(maps);
}

void guard_body(int fd) noexcept {
  ::prctl(PR_SET_NAME, kGuardName);
  // The guard must not keep a mounted directory busy.
  if (::chdir("/") != 0) return;
  // Under an outer launcher our environment has that one's agent id. Its guard must not kill this
  // one: our agent's workers carry our id alone, and would then outlive both.
  hide_variable("DDP_AGENT_ID");
  ::malloc_trim(0);
  drop_code();
  Guarded guarded;
  if (attend(fd, ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC), guarded)) return;
  kill_all(guarded);
  // The agent's socket, which nobody answers any more.
  if (!guarded.scratch.empty()) ::unlink((guarded.scratch + "/control").c_str());
  // Dying processes that no scan found stay in the cgroup for a moment.
  const auto last = std::chrono::steady_clock::now() + kRemoveTime;
  while (!remove_cgroup(guarded.cgroup) && std::chrono::steady_clock::now() < last) {
    kill_cgroup(guarded.cgroup);
    ::poll(nullptr, 0, 1);
  }
  ::rmdir(guarded.scratch.c_str());  // fails, as intended, if it holds error files
}

}  // namespace

Guard::Guard(const std::string& agent_id, const std::filesystem::path& scratch)
    : agent_id_(agent_id), scratch_(scratch.string()) {
  begin();
}

void Guard::begin() {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "guard");
  pipe_ = ends[1];
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);  // ours; the guard's end blocks
  // Before the fork, so that the guard knows which processes it may kill, however soon we die.
  send(kAgentId, {}, agent_id_);
  if (scratch_.size() < kTextBytes) send(kScratch, {}, scratch_);
  pid_ = fork_helper(guard_body, ends[0]);
  ::close(ends[0]);
}

bool Guard::replace_dead() {
  if (!reap_within(pid_, std::chrono::milliseconds(0))) return false;
  pid_ = 0;  // in case no other can be started
  ::close(std::exchange(pipe_, -1));
  begin();
  if (!cgroup_.empty()) send(kCgroup, {}, cgroup_);
  for (const Session& session : sessions_)
    send(kWatch, session, "");
  for (const Session& session : daemons_)
    send(kDaemon, session, "");
  if (lease_ != std::chrono::nanoseconds(0)) send(kLease, {}, "");
  return true;
}

Guard::~Guard() {
  ::close(pipe_);
  signal_process(pid_, SIGCONT);  // a stopped guard would be left behind
  reap_within(pid_, std::chrono::seconds(5));
}

void Guard::watch_cgroup(const std::filesystem::path& cgroup) {
  if (cgroup.native().size() < kTextBytes) cgroup_ = cgroup.string();
  if (!cgroup_.empty()) send(kCgroup, {}, cgroup_);
}

void Guard::watch_session(const Session& session) {
  sessions_.push_back(session);
  send(kWatch, session, "");
}

void Guard::forget_session(pid_t session) {
  erase(sessions_, session);
  send(kForget, {session}, "");
}

void Guard::set_daemons(const std::vector<Session>& found) {
  for (const Session& daemon : std::exchange(daemons_, {})) {
    // If a worker has the number now, keep it.
    if (!has(found, daemon.number) && !has(sessions_, daemon.number)) forget_session(daemon.number);
  }
  for (const Session& session : found) {
    if (session.number == pid_ || has(sessions_, session.number)) continue;
    daemons_.push_back(session);
    send(kDaemon, session, "");
  }
}

void Guard::set_lease(std::chrono::milliseconds lease) {
  lease_ = lease;
  lease_end_ = boot_time() + lease_;
  send(kLease, {}, "");
}

void Guard::renew_lease() {
  if (lease_ == std::chrono::nanoseconds(0) || is_lease_over()) return;
  lease_end_ = boot_time() + lease_;
  send(kLease, {}, "");
}

bool Guard::is_lease_over() const {
  return lease_ != std::chrono::nanoseconds(0) && boot_time() >= lease_end_;
}

void Guard::disarm() {
  send(kDisarm, {}, "");
}

void Guard::send(char kind, const Session& session, const std::string& text) const {
  Message message;
  message.kind = kind;
  message.session = session;
  message.lease_end = lease_end_.count();
  message.text_bytes = std::min(text.size(), kTextBytes);
  std::array<char, sizeof message + kTextBytes> bytes;
  std::memcpy(bytes.data(), &message, sizeof message);
  text.copy(bytes.data() + sizeof message, message.text_bytes);
  const std::size_t size = sizeof message + message.text_bytes;
  // A stopped guard reads nothing: wake it, and give it a moment. A killed guard cannot be told;
  // replace_dead() tells the next one.
  for (int tries = 0; tries < 2; ++tries) {
    if (::write(pipe_, bytes.data(), size) >= 0 || errno != EAGAIN) return;
    signal_process(pid_, SIGCONT);
    pollfd entry{pipe_, POLLOUT, 0};
    ::poll(&entry, 1, kGuardWaitMs);
  }
}

}  // namespace ddp::launcher
