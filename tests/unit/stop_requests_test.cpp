#include "launcher/plan/round/stop_requests.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

const StopRequests::Time kRequestsBegin{1000s};

TEST(StopRequests, SignalsAtOnceAreOneRequest) {
  StopRequests requests;
  EXPECT_EQ(requests.note(kRequestsBegin), 1);
  EXPECT_EQ(requests.note(kRequestsBegin + 50ms), 0);
  EXPECT_EQ(requests.note(kRequestsBegin + 100ms), 0);
  EXPECT_EQ(requests.count(), 1);
  EXPECT_FALSE(requests.second());
}

TEST(StopRequests, LaterOnesAreCountedEachForItself) {
  StopRequests requests;
  EXPECT_EQ(requests.note(kRequestsBegin), 1);
  EXPECT_EQ(requests.note(kRequestsBegin + 101ms), 2);
  EXPECT_EQ(requests.note(kRequestsBegin + 150ms), 0) << "the second, delivered twice";
  EXPECT_EQ(requests.note(kRequestsBegin + 9s), 3);
  EXPECT_EQ(requests.second(), kRequestsBegin + 101ms) << "who waits for its answer began then";
}

TEST(StopRequests, OnlyWhatUsersRepeatCounts) {
  EXPECT_TRUE(StopRequests::counts(SIGINT));
  EXPECT_TRUE(StopRequests::counts(SIGTERM));
  EXPECT_FALSE(StopRequests::counts(SIGUSR1));
}

}  // namespace
}  // namespace ddp::launcher
