#include "worker/save/background.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <vector>

namespace ddp::worker {
namespace {

TEST(Background, WorkIsDoneInItsOrderWhileOthersGoOn) {
  std::vector<int> done;
  std::promise<void> gate;
  Background background("that works");
  background.start([&, open = gate.get_future().share()] {
    open.wait();
    done.push_back(1);
  });
  background.start([&] { done.push_back(2); });
  gate.set_value();  // reached although the first one waits for it
  background.wait();
  EXPECT_EQ(done, (std::vector<int>{1, 2}));
  background.start([&] { done.push_back(3); });
  background.wait();
  EXPECT_EQ(done.back(), 3);
}

TEST(Background, DestructorWaitsForAllStartedWork) {
  int done = 0;
  {
    Background background("that works");
    for (int i = 0; i < 100; ++i)
      background.start([&done] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(Background, ThreadBlocksSignals) {
  sigset_t mask;
  ::sigemptyset(&mask);
  {
    Background background("that works");
    background.start([&mask] { ::pthread_sigmask(SIG_SETMASK, nullptr, &mask); });
  }
  EXPECT_TRUE(::sigismember(&mask, SIGTERM));
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(::sigismember(&mask, SIGTERM)) << "who begins it does, as before";
}

}  // namespace
}  // namespace ddp::worker
