#include "common/node/probe_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <utility>

#include "common/node/helper_process.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

// The bytes of the program. A compiler's cache must not keep this file: they are not in its text.
__asm__(
    ".section .rodata\n"
    "ddp_probe_begin:\n"
    ".incbin \"" DDP_PROBE
    "\"\n"
    "ddp_probe_end:\n"
    ".byte 0\n"
    ".previous");
extern "C" __attribute__((visibility("hidden"))) const char ddp_probe_begin[];
extern "C" __attribute__((visibility("hidden"))) const char ddp_probe_end[];

namespace ddp {
namespace {

constexpr std::string_view kNotStarted = "not-started";
constexpr std::string_view kEnd = "end";

/// Runs in the helper. Returns errno, or not at all.
int become_probe(int fd, const std::vector<std::string>& question) {
  const std::string_view program(ddp_probe_begin,
                                 static_cast<std::size_t>(ddp_probe_end - ddp_probe_begin));
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is one on memory, too: EFBIG
  const int file = ::memfd_create("ddp-probe", MFD_CLOEXEC);
  if (file < 0) return errno;
  for (std::size_t written = 0; written < program.size();) {
    const ssize_t more = ::write(file, program.data() + written, program.size() - written);
    if (more < 0) return errno;
    written += static_cast<std::size_t>(more);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  std::vector<std::string> words{"ddp-probe", std::to_string(fd)};
  words.insert(words.end(), question.begin(), question.end());
  std::vector<char*> arguments;
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::fcntl(fd, F_SETFD, 0);
  ::execv(path.c_str(), arguments.data());
  return errno;
}

}  // namespace

std::function<void(int)> probe(std::vector<std::string> question, std::chrono::seconds limit) {
  return [question = std::move(question), limit](int fd) {
    end_with_parent(limit);
    write_all(fd, std::string(kNotStarted) + "\t" + std::to_string(become_probe(fd, question)));
  };
}

ProbeAnswer read_probe(std::string_view told) {
  ProbeAnswer answer;
  for (const std::string_view line : split(told, '\n')) {
    answer.lines.push_back(split(line, '\t'));
    const auto& parts = answer.lines.back();
    if (parts[0] == kEnd) answer.is_whole = true;
    if (parts[0] == kNotStarted && parts.size() == 2)
      answer.why_not_started = parse_whole<int>(parts[1]).value_or(EIO);
  }
  return answer;
}

}  // namespace ddp
