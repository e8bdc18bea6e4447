#include "launcher/os/parent_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "common/error.h"
#include "common/files/descriptor.h"

namespace ddp::launcher {
namespace {

constexpr const char* kName = "stdin (--token-stdin)";
constexpr std::size_t kLongestToken = 4096;

/// Reads byte by byte, so that bytes after the line stay in the pipe.
std::string read_line(int fd) {
  std::string line;
  line.reserve(kLongestToken + 1);  // a growing string would leave copies of the secret
  while (line.size() <= kLongestToken) {
    char byte = 0;
    const ssize_t got = ::read(fd, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    check(got, "read", kName);
    if (got == 0) break;
    if (byte == '\n') return line;
    line += byte;
  }
  throw UsageError("--token-stdin: no line with a token came on stdin, but " +
                   std::to_string(line.size()) +
                   " bytes. It is for agents that --hosts starts; leave it out otherwise.");
}

}  // namespace

Secret take_parent_pipe() {
  Secret token = read_line(STDIN_FILENO);
  // Move it away from 0: workers inherit stdin and must not read our connection.
  const int connection = check(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), "fcntl", kName);
  const Descriptor nothing(check(::open("/dev/null", O_RDONLY | O_CLOEXEC), "open", "/dev/null"));
  check(::dup2(nothing.fd(), STDIN_FILENO), "dup2", kName);
  check(::fcntl(connection, F_SETOWN, ::getpid()), "fcntl", kName);
  // With O_ASYNC the kernel sends this signal when the descriptor becomes readable, or its other
  // end is closed (fcntl(2), F_SETOWN and F_SETSIG): even where the loop does not run yet.
  check(::fcntl(connection, F_SETSIG, SIGTERM), "fcntl", kName);
  const int flags = check(::fcntl(connection, F_GETFL), "fcntl", kName);
  check(::fcntl(connection, F_SETFL, flags | O_ASYNC), "fcntl", kName);
  const std::string answer = std::string(kConnected) + "\n";
  check(::write(STDERR_FILENO, answer.data(), answer.size()), "write", "stderr (--token-stdin)");
  // The connection may have ended before O_ASYNC was set.
  pollfd entry{connection, POLLIN, 0};
  if (::poll(&entry, 1, 0) == 1) ::raise(SIGTERM);
  return token;  // `connection` stays open as long as this process
}

}  // namespace ddp::launcher
