#include "common/node/packaged_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/error.h"
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

std::string refusal(const fs::path& self) {
  try {
    (void)find_packaged_worker(self, std::chrono::seconds(1));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(PackagedWorker, APythonThatDoesNotAnswerIsNotWaitedForForEver) {
  const Scratch scratch;
  const fs::path self = environment(scratch.path(), "exec tail -f /dev/null");
  EXPECT_THAT(refusal(self),
              HasSubstr("bin/python3 was asked where its torch is, and did not answer within 1 s"));
}

TEST(PackagedWorker, WhatAPythonSaidBeforeItHangsCounts) {
  const Scratch scratch;
  const fs::path self = environment(
      scratch.path(), "echo; echo torch is /nowhere/torch/__init__.py; exec tail -f /dev/null");
  EXPECT_THAT(refusal(self), HasSubstr("torch of an unknown version is in /nowhere"));
}

TEST(PackagedWorker, APythonThatFailsHasNoTorch) {
  const Scratch scratch;
  EXPECT_THAT(refusal(environment(scratch.path(), "exit 1")), HasSubstr("there is no torch in"));
}

}  // namespace
}  // namespace ddp
