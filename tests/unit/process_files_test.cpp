#include "worker/dist/process_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp::worker {
namespace {

/// A process with that run id in its environment, as long as this lives.
class Started {
 public:
  explicit Started(const std::string& run_id)
      : pipe_(::popen(("DDP_RUN_ID=" + run_id + " sh -c 'echo $$; exec yes'").c_str(), "r")) {
    char line[32] = "";
    if (pipe_ != nullptr && std::fgets(line, sizeof line, pipe_) != nullptr)
      pid_ = parse_whole<int>(trim(line)).value_or(0);
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started() {
    if (pipe_ != nullptr) ::pclose(pipe_);
  }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  std::FILE* pipe_;
  int pid_ = 0;
};

TEST(ProcessFiles, AProcessIsOfTheJobWhoseNumberItHas) {
  const Started other("run7");
  ASSERT_GT(other.pid(), 0);
  // Between two programs it has no environment for a moment.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool is_found = false;
  while (!is_found && std::chrono::steady_clock::now() < deadline)
    is_found = is_of_same_job(other.pid(), "run7");
  EXPECT_TRUE(is_found);
  EXPECT_FALSE(is_of_same_job(other.pid(), "run"));
  EXPECT_FALSE(is_of_same_job(::getpid(), "run7"));
}

TEST(ProcessFiles, WithoutANumberAParentHasOneJob) {
  EXPECT_TRUE(is_of_same_job(::getpid(), ""));
  EXPECT_FALSE(is_of_same_job(::getppid(), ""));
  EXPECT_FALSE(is_of_same_job(0, "")) << "there is no such process";
}

}  // namespace
}  // namespace ddp::worker
