#include "common/node/packaged_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "common/error.h"
#include "common/node/process_signals.h"
#include "tests/unit/scratch.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// An environment whose Python is this script of sh, with the package and without torch.
fs::path environment(const fs::path& prefix, const std::string& script) {
  fs::create_directories(prefix / "lib/python3.11/site-packages/ddp_worker/torch-2.15/bin");
  fs::create_directories(prefix / "bin");
  const fs::path python = prefix / "bin" / "python3";
  std::ofstream(python) << "#!/bin/sh\n" << script << "\n";
  fs::permissions(python, fs::perms::owner_all);
  return prefix / "bin" / "ddp-worker";
}

std::string refusal(const fs::path& self,
                    std::chrono::seconds patience,
                    int code = exit_code::kUsage) {
  try {
    (void)find_packaged_worker(self, patience);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

TEST(PackagedWorker, APythonThatDoesNotAnswerIsNotWaitedForForEver) {
  const Scratch scratch;
  const fs::path self = environment(scratch.path(), "exec tail -f /dev/null");
  EXPECT_THAT(refusal(self, std::chrono::seconds(1), exit_code::kTimeout),
              HasSubstr("bin/python3 was asked where its torch is, and did not answer within 1 s"));
}

TEST(PackagedWorker, AnAnswerOfPythonBeforeItHangsCounts) {
  const Scratch scratch;
  const fs::path self = environment(
      scratch.path(), "echo; echo torch is /nowhere/torch/__init__.py; exec tail -f /dev/null");
  EXPECT_THAT(refusal(self, std::chrono::seconds(5)),
              HasSubstr("torch of an unknown version is in /nowhere"));
}

TEST(PackagedWorker, ChildrenOfAPythonThatTimedOutAreKilled) {
  const Scratch scratch;
  const fs::path pid_file = scratch.path() / "pid";
  const fs::path self =
      environment(scratch.path(), "tail -f /dev/null & echo $! > " + pid_file.string() + "; wait");
  EXPECT_NE(refusal(self, std::chrono::seconds(2), exit_code::kTimeout), "");
  pid_t pid = 0;
  std::ifstream(pid_file) >> pid;
  ASSERT_GT(pid, 0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (signal_process(pid, 0) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_FALSE(signal_process(pid, 0));
}

TEST(PackagedWorker, APythonHasAnEmptyInput) {
  const Scratch scratch;
  const fs::path self =
      environment(scratch.path(),
                  "cat && [ -e /proc/self/fd/0 ] && echo && echo torch is /read/torch/__init__.py");
  EXPECT_THAT(refusal(self, std::chrono::seconds(60)), HasSubstr("is in /read"));
}

TEST(PackagedWorker, APythonThatFailsHasNoTorch) {
  const Scratch scratch;
  EXPECT_THAT(refusal(environment(scratch.path(), "exit 1"), std::chrono::seconds(60)),
              HasSubstr("there is no torch in"));
}

}  // namespace
}  // namespace ddp
