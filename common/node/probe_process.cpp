#include "common/node/probe_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "common/files/embedded_file.h"
#include "common/files/write_all.h"
#include "common/node/helper_process.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

DDP_EMBED_FILE(ddp_probe, DDP_PROBE)

namespace ddp {
namespace {

constexpr std::string_view kNotStarted = "not-started";
constexpr std::string_view kEnd = "end";

/// Runs in the helper. Returns errno, or not at all.
int become_probe(int fd, const std::vector<std::string>& question) {
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is one on memory, too: EFBIG
  const int file = ::memfd_create("ddp-probe", MFD_CLOEXEC);
  if (file < 0) return errno;
  if (!write_all(file, ddp_probe())) return errno;
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

std::function<void(int)> probe_body(std::vector<std::string> question, std::chrono::seconds limit) {
  return [question = std::move(question), limit](int fd) {
    end_with_parent(limit);
    write_all(fd, std::string(kNotStarted) + "\t" + std::to_string(become_probe(fd, question)));
  };
}

ProbeAnswer read_probe(std::string_view text) {
  ProbeAnswer answer;
  for (const std::string_view line : split(text, '\n')) {
    answer.lines.push_back(split(line, '\t'));
    const auto& parts = answer.lines.back();
    if (parts[0] == kEnd) answer.is_whole = true;
    if (parts[0] == kNotStarted && parts.size() == 2)
      answer.why_not_started = parse_whole<int>(parts[1]).value_or(EIO);
  }
  return answer;
}

}  // namespace ddp
