#include "launcher/os/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <vector>

#include "tests/unit/scratch.h"

namespace ddp::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// What systemd would be: a datagram socket, in a directory or with an abstract name.
class Manager {
 public:
  explicit Manager(std::string name) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name[0] == '@') name[0] = '\0';
    std::copy(name.begin(), name.end(), address.sun_path);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0) << name;
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager() { ::close(fd_); }

  /// All that was told since the last look.
  std::vector<std::string> heard() {
    std::vector<std::string> states;
    char text[64];
    ssize_t size = 0;
    while ((size = ::recv(fd_, text, sizeof text, 0)) > 0)
      states.emplace_back(text, static_cast<std::size_t>(size));
    return states;
  }

 private:
  int fd_;
};

TEST(ServiceManager, HearsThatTheServiceIsReadyAndEnds) {
  const Scratch scratch;
  const std::string path = scratch.path() / "notify";
  Manager manager(path);
  asio::io_context io{1};
  ServiceManager service(io, {{"NOTIFY_SOCKET", path}});
  service.ready();
  service.ready();
  EXPECT_EQ(io.run(), 0U) << "there is no watchdog to feed";
  service.close();
  EXPECT_THAT(manager.heard(), ElementsAre("READY=1", "STOPPING=1"));
}

TEST(ServiceManager, HearsThatTheServiceLivesAsLongAsItsLoopTurns) {
  const std::string name = "@ddp-test-" + std::to_string(::getpid());
  Manager manager(name);
  asio::io_context io{1};
  ServiceManager service(io, {{"NOTIFY_SOCKET", name}, {"WATCHDOG_USEC", "2000"}});
  EXPECT_THAT(manager.heard(), IsEmpty());
  service.ready();
  EXPECT_THAT(manager.heard(), ElementsAre("READY=1", "WATCHDOG=1"));
  EXPECT_THAT(manager.heard(), IsEmpty()) << "a loop that stands says nothing";
  for (int i = 0; i < 3; ++i) {
    io.run_one();
    EXPECT_THAT(manager.heard(), ElementsAre("WATCHDOG=1"));
  }
  service.close();
  io.run();
  EXPECT_THAT(manager.heard(), ElementsAre("STOPPING=1"));
}

TEST(ServiceManager, TheWatchdogOfAnotherProcessIsNotOurs) {
  const Scratch scratch;
  const std::string path = scratch.path() / "notify";
  Manager manager(path);
  asio::io_context io{1};
  ServiceManager service(
      io, {{"NOTIFY_SOCKET", path}, {"WATCHDOG_USEC", "2000"}, {"WATCHDOG_PID", "1"}});
  service.ready();
  EXPECT_EQ(io.run(), 0U);
  EXPECT_THAT(manager.heard(), ElementsAre("READY=1"));
}

TEST(ServiceManager, NobodyNeedsToListen) {
  asio::io_context io{1};
  const Environment cases[] = {{},
                               {{"NOTIFY_SOCKET", "/nowhere/notify"}, {"WATCHDOG_USEC", "x"}},
                               {{"NOTIFY_SOCKET", std::string(200, 'n')}}};
  for (const Environment& environment : cases) {
    ServiceManager service(io, environment);
    service.ready();
    service.close();
  }
  EXPECT_EQ(io.run(), 0U);
}

}  // namespace
}  // namespace ddp::launcher
