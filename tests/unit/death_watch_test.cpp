#include "launcher/os/death_watch.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <vector>

#include "common/node/process_signals.h"
#include "common/progress/alive_lock.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

/// A process that holds the lock of a page. It is killed at the latest at the end of the test.
class Holder {
 public:
  Holder() {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      take_alive_lock(*page_);
      [[maybe_unused]] const ssize_t written = ::write(ready[1], "x", 1);
      while (true)
        ::pause();
    }
    char letter = 0;
    EXPECT_EQ(::read(ready[0], &letter, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    end();
    ::waitpid(pid_, nullptr, 0);
  }
  void end() const { signal_process(pid_, SIGKILL); }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] DeathWatch::Word& word() const { return alive_word(*page_); }

 private:
  const MappedProgressPage page_ = MappedProgressPage::create();
  pid_t pid_ = -1;
};

class DeathWatchTest : public testing::Test {
 protected:
  /// Whether the callback is called within the time, once more than so far.
  bool is_called_within(std::chrono::seconds limit) {
    const int before = calls_;
    const Deadline end = Clock::now() + limit;
    while (calls_ == before && Clock::now() < end)
      io_.run_one_until(end);
    return calls_ > before;
  }

  asio::io_context io_;
  int calls_ = 0;
  DeathWatch watch_{io_, [this] { ++calls_; }};
};

TEST_F(DeathWatchTest, TellsOfEachDeath) {
  const std::vector<std::unique_ptr<Holder>> holders = [] {
    std::vector<std::unique_ptr<Holder>> made;
    for (int i = 0; i < 3; ++i)
      made.push_back(std::make_unique<Holder>());
    return made;
  }();
  for (const auto& holder : holders)
    watch_.watch(holder->word(), holder->pid());
  for (const auto& holder : holders) {
    holder->end();
    EXPECT_TRUE(is_called_within(20s));
    EXPECT_NE(holder->word() & FUTEX_OWNER_DIED, 0U);
  }
}

TEST_F(DeathWatchTest, WatchesAWordOnceHoweverOftenItIsAsked) {
  const Holder holder;
  for (int i = 0; i < 3; ++i)
    watch_.watch(holder.word(), holder.pid());
  holder.end();
  EXPECT_TRUE(is_called_within(20s));
  const Holder other;  // its death comes after all that the first could cause
  watch_.watch(other.word(), other.pid());
  other.end();
  EXPECT_TRUE(is_called_within(20s));
  EXPECT_EQ(calls_, 2);
}

TEST_F(DeathWatchTest, DoesNotWatchALockOfAnotherProcess) {
  const Holder holder;
  watch_.watch(holder.word(), holder.pid() + 1);
  EXPECT_EQ(holder.word(), static_cast<std::uint32_t>(holder.pid())) << "it is left as it was";
}

TEST_F(DeathWatchTest, AForgottenPageMayBeUnmapped) {
  const Holder watched;
  watch_.watch(watched.word(), watched.pid());
  {
    const Holder forgotten;
    watch_.watch(forgotten.word(), forgotten.pid());
    watch_.forget(forgotten.word());
  }
  watched.end();
  EXPECT_TRUE(is_called_within(20s));
  EXPECT_EQ(calls_, 1);
}

TEST_F(DeathWatchTest, MoreWordsThanOneThreadCanWaitForAreLeftOut) {
  const Holder holder;
  std::vector<DeathWatch::Word> words(DeathWatch::kMostWords + 1);
  const auto pid = static_cast<std::uint32_t>(::getpid());
  for (DeathWatch::Word& word : words) {
    word = pid;
    watch_.watch(word, ::getpid());
  }
  EXPECT_EQ(words[DeathWatch::kMostWords - 1], pid | FUTEX_WAITERS);
  EXPECT_EQ(words.back(), pid);
  watch_.forget(words.front());
  watch_.watch(holder.word(), holder.pid());
  holder.end();
  EXPECT_TRUE(is_called_within(20s));
}

TEST_F(DeathWatchTest, NothingIsToldAfterTheClose) {
  const Holder holder;
  watch_.watch(holder.word(), holder.pid());
  watch_.close();
  io_.run();  // returns, as nothing is waited for
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace ddp::launcher
