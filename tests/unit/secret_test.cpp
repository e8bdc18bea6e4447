#include "launcher/plan/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace ddp::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What the kernel says of the memory in which `text` lies, by two letters each (proc(5), smaps).
std::string flags_of(std::string_view text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text.data());
  std::ifstream file("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-')
      is_there = begin <= address && address < end;
    if (is_there && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(Secret, HoldsTheText) {
  const Secret secret(std::string("between agents"));
  const Secret copy = secret;
  EXPECT_EQ(copy.text(), "between agents");
  EXPECT_FALSE(copy.empty());
  EXPECT_TRUE(Secret().empty());
  EXPECT_TRUE(Secret(std::string()).empty());
  EXPECT_EQ(Secret().text(), "");
}

TEST(Secret, LiesInNoCoreFile) {
  const std::string bare(64, 'a');
  EXPECT_THAT(flags_of(bare), Not(HasSubstr(" dd ")));
  EXPECT_THAT(flags_of(Secret(bare).text()), HasSubstr(" dd "));
}

TEST(Secret, ForkedChildHasNoSecret) {
  const Secret secret(std::string(64, 'a'));
  const pid_t child = ::fork();
  if (child == 0) ::raise(secret.text() == std::string(64, '\0') ? SIGUSR1 : SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}

TEST(Secret, AWipedTextHasNoBytes) {
  std::string text(64, 'a');
  const char* const bytes = text.data();
  wipe(text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(std::string(bytes, 64), std::string(64, '\0'));
}

}  // namespace
}  // namespace ddp::launcher
