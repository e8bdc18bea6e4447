#include "launcher/os/service_notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/notify_socket.h"
#include "tests/unit/scratch.h"

namespace ddp::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ServiceNotifier, HearsThatTheServiceIsReadyAndEnds) {
  const Scratch scratch;
  const std::string path = scratch.path() / "notify";
  test::NotifySocket manager(path);
  asio::io_context io{1};
  ServiceNotifier service(io, {{"NOTIFY_SOCKET", path}});
  service.ready();
  service.ready();
  EXPECT_EQ(io.run(), 0U) << "there is no watchdog to feed";
  service.close();
  EXPECT_THAT(manager.heard(), ElementsAre("READY=1", "STOPPING=1"));
}

TEST(ServiceNotifier, HearsThatTheServiceLivesAsLongAsItsLoopTurns) {
  const std::string name = "@ddp-test-" + std::to_string(::getpid());
  test::NotifySocket manager(name);
  asio::io_context io{1};
  ServiceNotifier service(io, {{"NOTIFY_SOCKET", name}, {"WATCHDOG_USEC", "2000"}});
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

TEST(ServiceNotifier, TheWatchdogOfAnotherProcessIsNotOurs) {
  const Scratch scratch;
  const std::string path = scratch.path() / "notify";
  test::NotifySocket manager(path);
  asio::io_context io{1};
  ServiceNotifier service(
      io, {{"NOTIFY_SOCKET", path}, {"WATCHDOG_USEC", "2000"}, {"WATCHDOG_PID", "1"}});
  service.ready();
  EXPECT_EQ(io.run(), 0U);
  EXPECT_THAT(manager.heard(), ElementsAre("READY=1"));
}

TEST(ServiceNotifier, MissingServiceManagerIsIgnored) {
  asio::io_context io{1};
  const Environment cases[] = {{},
                               {{"NOTIFY_SOCKET", "/nowhere/notify"}, {"WATCHDOG_USEC", "x"}},
                               {{"NOTIFY_SOCKET", std::string(200, 'n')}}};
  for (const Environment& environment : cases) {
    ServiceNotifier service(io, environment);
    service.ready();
    service.close();
  }
  EXPECT_EQ(io.run(), 0U);
}

}  // namespace
}  // namespace ddp::launcher
