// The token of a job in the memory of its agents: nowhere that a core file would hold.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/os/port.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

struct Memory {
  std::string in_core;      // the places, a line each
  std::string not_in_core;  // as in /proc/PID/smaps
};

/// Where `text` lies in the memory of a process.
Memory find_in_memory(pid_t pid, const std::string& text) {
  const std::string process = "/proc/" + std::to_string(pid);
  const int fd = ::open((process + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  std::ifstream maps(process + "/smaps");
  Memory found;
  std::string place;
  bool holds = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::size_t begin = 0;
    std::size_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      place = line;
      std::string bytes(end - begin, '\0');
      const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(begin));
      bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      holds = bytes.find(text) != std::string::npos;
    }
    if (!holds || !line.starts_with("VmFlags:")) continue;
    const bool is_dumped = (line + " ").find(" dd ") == std::string::npos;
    (is_dumped ? found.in_core : found.not_in_core) += place + "\n";
  }
  ::close(fd);
  return found;
}

class LauncherToken : public ProcessTest {
 protected:
  std::unique_ptr<Running> launch_node(int rank,
                                       const std::vector<std::string>& more,
                                       const std::string& variable) {
    std::vector<std::string> arguments{DDP_LAUNCH,
                                       "--nnodes=2",
                                       "--nproc-per-node=1",
                                       "--grace=2s",
                                       "--node-rank=" + std::to_string(rank),
                                       "--master-addr=127.0.0.1",
                                       "--master-port=" + port_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {DDP_FAKE_WORKER, "print", "begun", "hold"});
    return start(
        Command{.arguments = std::move(arguments), .environment = {{"DDP_TOKEN", variable}}});
  }

  const std::string port_ = std::to_string(launcher::free_port());
};

TEST_F(LauncherToken, A8_CoreFilesDoNotHoldTheToken) {
  if (kInstrumented) GTEST_SKIP() << "needs a build without a sanitizer, whose memory has no end";
  const std::string token = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
  const std::string file = write_file("token", token + "\n");
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  const auto by_file = launch_node(0, {"--token-file=" + file}, "");
  const auto by_variable = launch_node(1, {}, token);
  ASSERT_TRUE(by_file->sees("begun"));
  ASSERT_TRUE(by_variable->sees("begun"));
  for (const Running* const agent : {by_file.get(), by_variable.get()}) {
    const Memory memory = find_in_memory(agent->pid(), token);
    EXPECT_EQ(memory.in_core, "");
    EXPECT_NE(memory.not_in_core, "") << "it is nowhere: the test sees nothing";
  }
  for (const std::string& process : alive()) {
    const pid_t pid = std::stoi(process);  // guards and workers, too
    EXPECT_EQ(find_in_memory(pid, token).in_core, "") << process;
  }
  by_file->signal(SIGTERM);
  EXPECT_EQ(by_file->wait(), 143);
  EXPECT_EQ(by_variable->wait(), 143);
}

}  // namespace
}  // namespace ddp::test
