// A cgroup of one test's own, where this machine lets it make one.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/files/files.h"
#include "launcher/plan/start/cgroups.h"
#include "tests/support/process_test.h"

namespace ddp::test {

/// A cgroup below our own, of a v1 controller or of the v2 hierarchy with that controller.
class TestCgroup {
 public:
  explicit TestCgroup(const std::string& controller) {
    for (const std::string& hierarchy : {controller, std::string()}) {
      const auto directories = launcher::cgroup_directories(
          read("/proc/self/cgroup"), read("/proc/self/mountinfo"), hierarchy);
      if (directories.empty()) continue;
      if (hierarchy.empty() &&
          read(directories[0] + "/cgroup.subtree_control").find(controller) == std::string::npos) {
        continue;
      }
      std::error_code error;
      path_ = directories[0] + "/ddp-test-" + std::to_string(::getpid());
      if (std::filesystem::create_directory(path_, error)) return;
    }
    path_.clear();
  }
  TestCgroup(const TestCgroup&) = delete;
  TestCgroup& operator=(const TestCgroup&) = delete;
  ~TestCgroup() {
    if (!is_there()) return;
    if (has("pids.max")) set("pids.max", "0");  // a bomb that is left can be killed by others then
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] bool is_there() const { return !path_.empty(); }
  [[nodiscard]] bool has(const std::string& file) const {
    return std::filesystem::exists(path_ + "/" + file);
  }
  void set(const std::string& file, const std::string& text) const {
    std::ofstream(path_ + "/" + file) << text << std::flush;
  }
  /// Before a command: it joins the cgroup.
  [[nodiscard]] std::vector<std::string> enter() const {
    return {"/bin/sh", "-c", "echo $$ > " + path_ + "/cgroup.procs && exec \"$@\"", "sh"};
  }

 private:
  static std::string read(const std::string& path) { return read_file(path).value_or(""); }
  std::string path_;
};

/// ddp-launch with these arguments, in that cgroup.
inline Command launch_inside(const TestCgroup& cgroup,
                             const std::filesystem::path& scratch,
                             const std::vector<std::string>& arguments) {
  Command command{.arguments = cgroup.enter(),
                  .environment = {{"XDG_RUNTIME_DIR", scratch.string()}}};
  command.arguments.emplace_back(DDP_LAUNCH);
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace ddp::test
