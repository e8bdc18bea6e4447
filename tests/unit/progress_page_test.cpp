#include "common/progress/progress_page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/error.h"
#include "common/progress/rank_progress.h"
#include "deploy/progress/ddp_progress.h"

namespace ddp {
namespace {

TEST(ProgressPage, BothSidesSeeTheSamePage) {
  const MappedProgressPage agent = MappedProgressPage::create();
  EXPECT_EQ(agent->phase.load(), Phase::none) << "not opened yet: external";
  EXPECT_TRUE(std::isnan(agent->accuracy.load())) << "no evaluation yet";
  const MappedProgressPage worker = MappedProgressPage::open(::dup(agent.fd()));
  EXPECT_EQ(agent->version.load(), ProgressPage::kVersion);
  worker->step = 42;
  worker->phase = Phase::training;
  EXPECT_EQ(agent->step.load(), 42);
  EXPECT_EQ(to_text(agent->phase.load()), "training");
  agent->stop_reason = StopReason::preempt;
  EXPECT_EQ(worker->stop_reason.load(), StopReason::preempt);
}

// The header for C programs says the same page in its own words.
template <typename Ours, typename Theirs>
void expect_same_place(Ours ProgressPage::*ours, Theirs ddp_progress::*theirs) {
  static const ProgressPage kPage;
  static const ddp_progress kTheirs{};
  const auto* const page = reinterpret_cast<const char*>(&kPage);
  const auto* const other = reinterpret_cast<const char*>(&kTheirs);
  EXPECT_EQ(reinterpret_cast<const char*>(&(kPage.*ours)) - page,
            reinterpret_cast<const char*>(&(kTheirs.*theirs)) - other);
  EXPECT_EQ(sizeof(Ours), sizeof(Theirs));
}

TEST(ProgressPage, TheHeaderForCHasTheSamePage) {
  EXPECT_EQ(ProgressPage::kVersion, DDP_PROGRESS_VERSION);
  EXPECT_EQ(static_cast<int>(kLastPhase), DDP_PROGRESS_BACKWARD);
  EXPECT_EQ(static_cast<int>(Phase::finished), DDP_PROGRESS_FINISHED);
  expect_same_place(&ProgressPage::version, &ddp_progress::version);
  expect_same_place(&ProgressPage::phase, &ddp_progress::phase);
  expect_same_place(&ProgressPage::stop_reason, &ddp_progress::stop_reason);
  expect_same_place(&ProgressPage::collectives, &ddp_progress::collectives);
  expect_same_place(&ProgressPage::epoch, &ddp_progress::epoch);
  expect_same_place(&ProgressPage::step, &ddp_progress::step);
  expect_same_place(&ProgressPage::steps_total, &ddp_progress::steps_total);
  expect_same_place(&ProgressPage::samples, &ddp_progress::samples);
  expect_same_place(&ProgressPage::loss, &ddp_progress::loss);
  expect_same_place(&ProgressPage::lr, &ddp_progress::lr);
  expect_same_place(&ProgressPage::checkpoint_step, &ddp_progress::checkpoint_step);
  expect_same_place(&ProgressPage::time_ns, &ddp_progress::time_ns);
  expect_same_place(&ProgressPage::saves_on_stop, &ddp_progress::saves_on_stop);
  expect_same_place(&ProgressPage::was_asked_elsewhere, &ddp_progress::was_asked);
  expect_same_place(&ProgressPage::data_wait_ns, &ddp_progress::data_wait_ns);
  expect_same_place(&ProgressPage::device_bytes, &ddp_progress::device_bytes);
  expect_same_place(&ProgressPage::accuracy, &ddp_progress::accuracy);
  expect_same_place(&ProgressPage::counted_ns, &ddp_progress::counted_ns);
  expect_same_place(&ProgressPage::waited_ns, &ddp_progress::waited_ns);
  expect_same_place(&ProgressPage::spent_ns, &ddp_progress::spent_ns);
}

TEST(ProgressPage, SaysWhenItsRankIsInACollective) {
  const MappedProgressPage page = MappedProgressPage::create();
  {
    const InCollective outer(&*page);
    const InCollective inner(&*page);
    EXPECT_EQ(page->collectives.load(), 2U);
  }
  EXPECT_EQ(page->collectives.load(), 0U);
  const InCollective nowhere(nullptr);
}

std::int64_t spent_in(const ProgressPage& page, Phase phase) {
  return page.spent_ns[static_cast<std::size_t>(phase)].load();
}

/// Waits until the page's clock has moved on, and returns by how much at least.
std::int64_t pass_time() {
  const std::int64_t begin = page_clock_ns();
  while (page_clock_ns() - begin < 1'000'000) {
  }
  return 1'000'000;
}

TEST(ProgressPage, CountsHowLongItsRankIsAtWhat) {
  const MappedProgressPage page = MappedProgressPage::create();
  const std::int64_t begin = page_clock_ns();
  enter_phase(*page, Phase::data);
  pass_time();
  enter_phase(*page, Phase::forward);
  pass_time();
  {
    const InCollective outer(&*page);
    pass_time();
    const InCollective inner(&*page);
    pass_time();
  }
  enter_phase(*page, Phase::training);
  const std::int64_t end = page_clock_ns();
  EXPECT_GE(spent_in(*page, Phase::data), 1'000'000);
  EXPECT_GE(spent_in(*page, Phase::forward), 1'000'000);
  EXPECT_GE(page->waited_ns.load(), 2'000'000);
  EXPECT_EQ(spent_in(*page, Phase::backward), 0);
  EXPECT_LE(spent_in(*page, Phase::data) + spent_in(*page, Phase::forward) + page->waited_ns,
            end - begin)
      << "no time is counted twice";
}

TEST(ProgressPage, TheHeaderForCCountsLikewise) {
  const MappedProgressPage page = MappedProgressPage::create();
  auto* const theirs = reinterpret_cast<ddp_progress*>(&*page);
  ddp_progress_phase(theirs, DDP_PROGRESS_BACKWARD);
  pass_time();
  ddp_progress_enter(theirs);
  pass_time();
  ddp_progress_leave(theirs);
  EXPECT_GE(spent_in(*page, Phase::backward), 1'000'000);
  EXPECT_GE(page->waited_ns.load(), 1'000'000);
}

TEST(RankProgress, HasTheTimeUpToNow) {
  const MappedProgressPage page = MappedProgressPage::create();
  RankProgress progress;
  page->version = ProgressPage::kVersion;
  read_progress(*page, progress);
  EXPECT_FALSE(progress.spent) << "it counts nothing yet";
  enter_phase(*page, Phase::evaluating);
  pass_time();
  read_progress(*page, progress);
  ASSERT_TRUE(progress.spent);
  EXPECT_GE(progress.spent->evaluating, 1'000'000);
  EXPECT_EQ(progress.spent->waiting, 0);
  const InCollective waiting(&*page);
  pass_time();
  read_progress(*page, progress);
  EXPECT_GE(progress.spent->waiting, 1'000'000);
  page->version = 3;
  read_progress(*page, progress);
  EXPECT_FALSE(progress.spent) << "that release counted no time";
}

TEST(RankProgress, TakesAnyNumberForATime) {
  const MappedProgressPage page = MappedProgressPage::create();
  RankProgress progress;
  page->version = ProgressPage::kVersion;
  page->phase = Phase::data;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t number : {kMost, std::numeric_limits<std::int64_t>::min()}) {
    page->counted_ns = number;
    page->waited_ns = number;
    page->spent_ns[static_cast<std::size_t>(Phase::data)] = number;
    read_progress(*page, progress);
    ASSERT_TRUE(progress.spent);
    EXPECT_GE(progress.spent->data, 0);
    EXPECT_GE(progress.spent->waiting, 0);
  }
}

TEST(ProgressPage, GarbageIsNotAnOpenedPage) {
  const MappedProgressPage agent = MappedProgressPage::create();
  EXPECT_FALSE(is_opened(*agent));
  agent->version = 0xDEADBEEF;
  EXPECT_FALSE(is_opened(*agent));
}

TEST(ProgressPage, APhaseOfAnotherReleaseIsNone) {
  const MappedProgressPage page = MappedProgressPage::create();
  page->phase = static_cast<Phase>(77);
  EXPECT_EQ(phase_of(*page), Phase::none);
  page->version = ProgressPage::kVersion;
  EXPECT_EQ(phase_of(*page), Phase::none);
  page->phase = Phase::forward;
  EXPECT_EQ(phase_of(*page), Phase::forward);
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
