#include "common/progress_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/error.h"

namespace ddp {
namespace {

TEST(ProgressPage, BothSidesSeeTheSamePage) {
  const MappedProgressPage agent = MappedProgressPage::create();
  EXPECT_EQ(agent->phase.load(), Phase::none) << "not opened yet: foreign";
  const MappedProgressPage worker = MappedProgressPage::open(::dup(agent.fd()));
  EXPECT_EQ(agent->version.load(), ProgressPage::kVersion);
  worker->step = 42;
  worker->phase = Phase::training;
  EXPECT_EQ(agent->step.load(), 42);
  EXPECT_EQ(to_text(agent->phase.load()), "training");
  agent->stop_reason = StopReason::preempt;
  EXPECT_EQ(worker->stop_reason.load(), StopReason::preempt);
}

TEST(ProgressPage, GarbageIsNotAnOpenedPage) {
  const MappedProgressPage agent = MappedProgressPage::create();
  EXPECT_FALSE(is_opened(*agent));
  agent->version = 0xDEADBEEF;
  EXPECT_FALSE(is_opened(*agent));
}

TEST(ProgressPage, AWorkerCannotCutItOff) {
  const MappedProgressPage agent = MappedProgressPage::create();
  EXPECT_NE(::ftruncate(agent.fd(), 0), 0);
  EXPECT_EQ(agent->step.load(), 0);
}

TEST(ProgressPage, AnyOtherDescriptorIsRefused) {
  EXPECT_THROW(MappedProgressPage::open(9999), UsageError);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_THROW(MappedProgressPage::open(null), UsageError);
  ::close(null);
}

}  // namespace
}  // namespace ddp
