#include "launcher/plan/failure/death_facts.h"

#include <algorithm>
#include <filesystem>

#include "common/text/contains.h"
#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kContainerDefault = 64 * kMiB;
constexpr std::size_t kCommandName = 15;  // TASK_COMM_LEN without the final NUL

/// Whether `line` has `before` + pid, with no digit after it.
bool names(std::string_view line, std::string_view before, pid_t pid) {
  const std::string wanted = std::string(before) + std::to_string(pid);
  for (std::size_t at = line.find(wanted); at != std::string_view::npos;
       at = line.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    if (end == line.size() || line[end] < '0' || line[end] > '9') return true;
  }
  return false;
}

std::string fill_specifier(char specifier, const CoreFacts& facts) {
  switch (specifier) {
    case '%':
      return "%";
    case 'p':
    case 'P':
    case 'i':
    case 'I':
      return std::to_string(facts.pid);
    case 'u':
      return std::to_string(facts.user);
    case 'g':
      return std::to_string(facts.group);
    case 's':
      return std::to_string(facts.signal);
    case 'h':
      return facts.host;
    case 'e':
      return std::filesystem::path(facts.executable).filename().string().substr(0, kCommandName) +
             "*";  // the process may rename itself
    case 'E': {
      std::string path = facts.executable;
      std::ranges::replace(path, '/', '!');
      return path;
    }
    default:
      return "*";
  }
}

}  // namespace

std::optional<std::string> read_kernel_record(std::string_view record) {
  const std::size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return {};
  const std::string_view text = record.substr(semicolon + 1);
  return std::string(text.substr(0, text.find('\n')));
}

std::string kernel_fact(std::string_view line, pid_t pid) {
  if (names(line, "Killed process ", pid))
    return "killed by the kernel for lack of memory: " + std::string(line);
  const bool is_fault = contains(line, "segfault") || contains(line, "traps:") ||
                        contains(line, "general protection") || contains(line, "trap ");
  if (is_fault && names(line, "[", pid)) return "kernel log: " + std::string(line);
  // A GPU error that names no process concerns every process on this node.
  const bool is_others = contains(line, "pid=") && !contains(line, "pid='<unknown>'");
  if (contains(line, "NVRM: Xid") && (names(line, "pid=", pid) || !is_others))
    return "GPU error in the kernel log: " + std::string(line);
  return "";
}

bool is_gpu_broken(std::string_view line) {
  // Memory: double bit errors (48), rows that cannot be replaced (64), errors contained or not (94,
  // 95), errors that stay (140). Firmware (62, 119, 120). NVLink (74). GPU off the bus (79).
  constexpr int kBroken[] = {48, 62, 64, 74, 79, 94, 95, 119, 120, 140};
  constexpr std::string_view kBefore = "NVRM: Xid (";
  const std::size_t begin = line.find(kBefore);
  const std::size_t close = begin == std::string_view::npos ? begin : line.find("): ", begin);
  if (close == std::string_view::npos) return false;
  line.remove_prefix(close + 3);
  return std::ranges::count(kBroken, take_number<int>(line).value_or(0)) > 0;
}

std::string core_path(std::string_view pattern, bool uses_pid, const CoreFacts& facts) {
  std::string path;
  bool has_pid = false;
  for (std::size_t i = 0; i < pattern.size() && pattern[i] != '\n'; ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
    } else if (++i < pattern.size()) {
      has_pid = has_pid || pattern[i] == 'p';
      path += fill_specifier(pattern[i], facts);
    }
  }
  if (uses_pid && !has_pid) path += "." + std::to_string(facts.pid);
  return path.starts_with('/') ? path : facts.directory + "/" + path;
}

std::string shared_memory_fact(const Space& space) {
  if (space.total == 0) return "";
  const std::string size = std::to_string(space.total / kMiB) + " MiB";
  const char* const advice =
      ". Make it larger (a container: --shm-size), or use fewer loader processes";
  if (space.free < kMiB || space.free < space.total / 100) {
    return "/dev/shm is full: " + std::to_string(space.free / 1024) + " KiB of " + size +
           " are left" + advice;
  }
  if (space.total <= kContainerDefault) return "/dev/shm has only " + size + advice;
  return "";
}

}  // namespace ddp::launcher
