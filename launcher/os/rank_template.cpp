#include "launcher/os/rank_template.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/embedded_file.h"
#include "common/files/write_all.h"
#include "common/node/process_signals.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "launcher/os/descriptors.h"
#include "launcher/os/process_state.h"

DDP_EMBED_FILE(ddp_warm_template, DDP_WARM_TEMPLATE)
DDP_EMBED_FILE(ddp_template_fitness, DDP_TEMPLATE_FITNESS)
DDP_EMBED_FILE(ddp_python_template, DDP_PYTHON_TEMPLATE)

namespace ddp::launcher {
namespace {

constexpr const char* kLabel = "template of the ranks";
constexpr std::chrono::milliseconds kStopPause(20);  // between two looks whether it is stopped
constexpr std::size_t kMostDescriptors = 8;

struct Pair {
  Descriptor ours;
  Descriptor theirs;
};

Pair make_pair() {
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair", kLabel);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// A file in memory with the text of a request, which may be longer than a packet of a socket.
Descriptor make_file(std::string_view text) {
  Descriptor file(check(::memfd_create("ddp-request", MFD_CLOEXEC), "memfd_create", kLabel));
  check(write_all(file.fd(), text) ? 0 : -1, "write", kLabel);
  return file;
}

bool is_stopped_process(pid_t pid) {
  const char state = pid > 1 ? read_process_state(pid).state : '?';
  return state == 'T' || state == 't';
}

/// Sends one byte with descriptors. False: the other end is gone, or does not read.
bool send_descriptors(int socket, const std::vector<int>& fds) {
  char byte = 'd';
  iovec piece{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

}  // namespace

/// The fork of a warm template that serves this job. It ends when its socket closes.
class RankTemplate::JobTemplate : public ForeignParent {
 public:
  JobTemplate(Descriptor socket, pid_t pid)
      : socket_(move_to_high_number(socket.release())),
        pidfd_(move_to_high_number(open_pidfd(pid))),
        pid_(pid) {}

  std::optional<ExitStatus> find_exit(pid_t child) override {
    const std::optional<std::string> answer = ask("look " + std::to_string(child));
    return answer ? read_exit(*answer) : ExitStatus{0, SIGKILL, false};
  }
  void reap(pid_t child) override { (void)ask("reap " + std::to_string(child)); }
  [[nodiscard]] bool is_alive() const override {
    return socket_ && !is_readable(pidfd_.fd(), std::chrono::milliseconds(0));
  }

  [[nodiscard]] bool has_died() const { return socket_ && !is_alive(); }
  [[nodiscard]] int socket() const { return socket_.fd(); }
  [[nodiscard]] pid_t pid() const { return is_alive() ? pid_ : 0; }
  void end() { socket_ = Descriptor(); }

 private:
  /// Sends a request and returns the answer. A fork that does not answer is killed, and its copies
  /// with it. Blocks: at most kCopyLimit.
  std::optional<std::string> ask(const std::string& request) {
    if (!is_alive()) return std::nullopt;
    signal_pidfd(pidfd_.fd(), SIGCONT);
    const auto size = static_cast<ssize_t>(request.size());
    if (::send(socket_.fd(), request.data(), request.size(), MSG_NOSIGNAL) == size) {
      if (auto answer = receive_packet(socket_.fd(), kCopyLimit)) return answer;
    }
    signal_pidfd(pidfd_.fd(), SIGKILL);
    return std::nullopt;
  }

  Descriptor socket_;
  const Descriptor pidfd_;
  const pid_t pid_;
};

RankTemplate::RankTemplate(asio::io_context& io,
                           const ProcessSpec& rank,
                           const std::vector<std::string>& modules,
                           std::optional<WarmPool::BoundSocket> warm_socket)
    : io_(io),
      socket_(io),
      use_(warm_socket ? TemplateUse::warm : TemplateUse::job),
      base_(template_environment(rank.environment, use_)),
      arguments_(rank.arguments) {
  const WarmSocket names = warm_socket ? warm_socket->names : WarmSocket{};
  Pair pair = make_pair();
  const std::string text =
      std::string(ddp_warm_template()).append(ddp_template_fitness()).append(ddp_python_template());
  check(::send(pair.ours.fd(), text.data(), text.size(), MSG_NOSIGNAL), "send", kLabel);
  const Descriptor request = make_file(import_request(modules, rank.environment, base_, names));
  std::vector<int> fds{request.fd()};
  if (warm_socket) fds.push_back(warm_socket->socket.fd());
  if (!send_descriptors(pair.ours.fd(), fds))
    throw SystemError(system_message("sendmsg", kLabel, errno));
  ProcessSpec spec;
  spec.executable = rank.executable;
  spec.arguments = {
      rank.arguments.front(),
      "-u",
      "-c",
      "import os;n=" + std::to_string(pair.theirs.fd()) + ";s=os.read(n,1<<18);exec(s)"};
  // The text executes the interpreter again, with these.
  const std::vector<std::string> words =
      warm_socket ? up_to_script(rank.arguments) : rank.arguments;
  spec.arguments.insert(spec.arguments.end(), words.begin() + 1, words.end());
  spec.environment = base_;
  if (warm_socket) spec.environment["DDP_AGENT_ID"] = kNoAgentId;
  start(std::move(spec), std::move(pair.ours), pair.theirs.fd());
}

std::shared_ptr<RankTemplate> RankTemplate::start_worker(asio::io_context& io,
                                                         const ProcessSpec& rank) {
  auto source = std::make_shared<RankTemplate>(io, rank, TemplateUse::worker);
  Pair pair = make_pair();
  ProcessSpec spec;
  spec.executable = rank.executable;
  spec.arguments = rank.arguments;
  spec.environment = source->base_;
  spec.environment["RANK"] = kTemplateRank;
  spec.environment[std::string(kTemplateSocket)] =
      std::to_string(pair.theirs.fd()) + std::string(kTemplateBlanks, ' ');
  source->start(std::move(spec), std::move(pair.ours), pair.theirs.fd());
  return source;
}

/// `theirs`: the other end of `socket`.
void RankTemplate::start(ProcessSpec spec, Descriptor socket, int theirs) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), "pipe2", kLabel);
  errors_ = Descriptor(ends[0]);
  const Descriptor output(ends[1]);
  spec.label = kLabel;
  spec.stdout_fd = output.fd();
  spec.stderr_fd = output.fd();
  spec.inherited_fd = theirs;
  process_ = std::make_unique<Process>(io_, spec);
  socket_.assign(move_to_high_number(socket.release()));
}

RankTemplate::RankTemplate(asio::io_context& io, const ProcessSpec& rank, TemplateUse use)
    : io_(io),
      socket_(io),
      use_(use),
      base_(template_environment(rank.environment, use_)),
      arguments_(rank.arguments) {}

RankTemplate::~RankTemplate() {
  end();
}

std::string RankTemplate::join(const std::string& key,
                               const std::string& agent_id,
                               Descriptor connection) {
  const Descriptor request = make_file(job_request(key, agent_id, arguments_));
  if (!connection || !send_descriptors(connection.fd(), {request.fd(), STDIN_FILENO}))
    return "it has ended";
  const pid_t listener = listener_of(connection.fd());
  std::string problem;
  const std::string answer = await_answer(connection.fd(), listener, problem);
  if (!problem.empty()) return problem;
  if (answer.empty()) return "it has ended";
  const TemplateMessage message = read_template_message(answer);
  if (message.kind != TemplateMessage::Kind::ready) return message.text;
  const pid_t pid = parse_whole<pid_t>(message.text, 2).value_or(0);
  const ProcessState state = read_process_state(pid);
  if (state.parent != listener || state.session != pid) return "its fork is not its child";
  job_ = std::make_shared<JobTemplate>(std::move(connection), pid);
  return "";
}

void RankTemplate::end() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  // A warm template that we have started outlives us once it is ready.
  if (job_ && process_) process_->release();
  if (job_) job_->end();
  process_.reset();
}

void RankTemplate::retire() {
  is_retired_ = true;
  if (!job_) end();  // else its copies would end with it
}

pid_t RankTemplate::pid() const {
  return job_ ? job_->pid() : child();
}

bool RankTemplate::has_died() const {
  return job_ && job_->has_died();
}

pid_t RankTemplate::parent_of_copies() const {
  return job_ ? job_->pid() : 0;
}

void RankTemplate::reap_orphans() {
  if (job_) job_->reap(0);
}

asio::awaitable<TemplateMessage> RankTemplate::listen() {
  const auto [error] =
      co_await socket_.async_wait(asio::posix::descriptor_base::wait_read, kResult);
  TemplateMessage message;
  message.kind = TemplateMessage::Kind::ended;
  if (error) co_return message;
  std::array<char, 4096> packet;
  const ssize_t size = ::recv(socket_.native_handle(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (size > 0) {
    message = read_template_message({packet.data(), static_cast<std::size_t>(size)});
    co_return message;
  }
  // Its last line says why.
  const ssize_t printed = ::read(errors_.fd(), packet.data(), packet.size());
  if (printed > 0) {
    const std::string_view text = trim({packet.data(), static_cast<std::size_t>(printed)});
    message.text = text.substr(text.rfind('\n') + 1);
  }
  co_return message;
}

bool RankTemplate::is_stopped() const {
  return is_stopped_process(pid());
}

/// The first packet of a copy or of a fork that process `from` makes. `problem` is set to the
/// reason if there is none.
std::string RankTemplate::await_answer(int channel, pid_t from, std::string& problem) const {
  const Deadline deadline = Clock::now() + kCopyLimit;
  std::array<char, 4096> packet;
  while (true) {
    pollfd entry{channel, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(kStopPause.count()));
    if (ready > 0) break;
    if (is_stopped_process(from)) problem = "it is stopped";
    if (Clock::now() >= deadline) problem = "it does not answer";
    if (!problem.empty()) return "";
  }
  const ssize_t size = ::recv(channel, packet.data(), packet.size(), MSG_DONTWAIT);
  return {packet.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

std::variant<std::unique_ptr<Process>, std::string> RankTemplate::copy(const ProcessSpec& rank) {
  if (pid() == 0) return "it has ended";
  const Environment wanted = template_environment(rank.environment, use_);
  if (auto other = find_other_variable(base_, wanted)) return *std::move(other);
  CopyPlan plan;
  plan.parent = job_ ? pid() : ::getpid();
  plan.page_fd = rank.inherited_fd;
  plan.lock_fd = rank.lock_fd;
  plan.cpus = rank.cpus;
  plan.arguments = rank.arguments;
  plan.environment = rank.environment;
  std::vector<int> optional;
  for (const auto& [kind, fd] : {std::pair('p', rank.inherited_fd),
                                 std::pair('l', rank.lock_fd),
                                 std::pair('c', rank.cgroup_fd)}) {
    if (fd < 0) continue;
    plan.descriptors += kind;
    optional.push_back(fd);
  }
  Pair channel = make_pair();
  const Descriptor request = make_file(copy_request(plan));
  std::vector<int> fds{request.fd(), channel.theirs.fd(), rank.stdout_fd, rank.stderr_fd};
  fds.insert(fds.end(), optional.begin(), optional.end());
  if (!send_descriptors(job_ ? job_->socket() : socket_.native_handle(), fds))
    return "it has ended";
  channel.theirs = Descriptor();
  std::string problem;
  const CopyAnswer answer = read_copy_answer(await_answer(channel.ours.fd(), pid(), problem));
  if (!problem.empty()) return problem;
  if (answer.pid == 0) return answer.problem;
  const ProcessState state = read_process_state(answer.pid);
  if (state.parent != plan.parent || state.session != answer.pid)
    return "its copy, pid " + std::to_string(answer.pid) + ", is not a child of ours";
  auto process = std::make_unique<Process>(io_, answer.pid, answer.is_in_cgroup, rank.label, job_);
  // The copy waits for this packet. Without it the copy ends, as a worker that has failed.
  if (::send(channel.ours.fd(), "g", 1, MSG_NOSIGNAL) != 1) return "its copy has ended";
  return process;
}

}  // namespace ddp::launcher
