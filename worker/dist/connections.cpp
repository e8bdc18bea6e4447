#include "worker/dist/connections.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace ddp::worker {
namespace {

std::optional<ino_t> inode_of(int fd) {
  struct stat status {};
  const bool is_socket = ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
  return is_socket ? std::optional(status.st_ino) : std::nullopt;
}

}  // namespace

std::set<Connection> open_connections() {
  std::set<Connection> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (const std::optional<ino_t> inode = inode_of(fd)) found.emplace(fd, *inode);
  }
  return error ? std::set<Connection>() : found;
}

std::set<Connection> only_connected(const std::set<Connection>& connections) {
  std::set<Connection> found;
  for (const Connection& connection : connections) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    const int rc = ::getpeername(connection.first, reinterpret_cast<sockaddr*>(&address), &length);
    if (rc == 0 && (address.ss_family == AF_INET || address.ss_family == AF_INET6))
      found.insert(connection);
  }
  return found;
}

bool are_open(const std::set<Connection>& connections) {
  return std::ranges::all_of(connections, [](const Connection& connection) {
    return inode_of(connection.first) == connection.second;
  });
}

void shut_down(const std::set<Connection>& connections) {
  for (const auto& [fd, inode] : connections) {
    if (inode_of(fd) == inode) ::shutdown(fd, SHUT_RDWR);
  }
}

}  // namespace ddp::worker
