#include "launcher/run/follow_logs.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include "common/cli/streams.h"
#include "launcher/net/control_socket.h"
#include "launcher/os/asio.h"
#include "launcher/plan/output/console_text.h"
#include "launcher/plan/output/line_splitter.h"
#include "launcher/plan/status/tail_follower.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kTailPause(500);
constexpr std::size_t kLogPiece = 64 << 10;
constexpr std::size_t kTailLines = 20;  // of an older file, as `logs` shows

/// A log file that grows. If it existed before, its last lines are shown first.
class FollowedFile {
 public:
  FollowedFile(const std::string& path, std::string prefix, bool is_old)
      : file_(path, std::ios::binary), prefix_(std::move(prefix)) {
    if (is_old) skip_to_tail();
  }

  /// The lines completed since the last call; of a job that has ended, also a last line without a
  /// newline.
  std::string read(bool is_alive) {
    std::string text;
    const auto append = [&](std::string_view line) {
      text += prefix_;
      append_clean(text, line);
      text += '\n';
    };
    std::string piece(kLogPiece, '\0');
    file_.clear();  // the file may have grown past the old end
    while (file_.read(piece.data(), static_cast<std::streamsize>(piece.size())),
           file_.gcount() > 0) {
      const auto size = static_cast<std::size_t>(file_.gcount());
      lines_.feed(std::string_view(piece).substr(0, size), append);
    }
    if (!is_alive) lines_.finish(append);
    return text;
  }

 private:
  void skip_to_tail() {
    file_.seekg(0, std::ios::end);
    const auto size = static_cast<std::streamoff>(file_.tellg());
    const std::streamoff start = std::max<std::streamoff>(0, size - std::streamoff{kLogPiece});
    std::string end(static_cast<std::size_t>(std::max<std::streamoff>(0, size - start)), '\0');
    file_.seekg(start);
    file_.read(end.data(), static_cast<std::streamsize>(end.size()));
    end.resize(static_cast<std::size_t>(file_.gcount()));
    std::size_t at = end.size();
    for (std::size_t lines = 0; at > 0; --at)
      if (end[at - 1] == '\n' && lines++ == kTailLines) break;
    file_.clear();
    file_.seekg(start + static_cast<std::streamoff>(at));
  }

  std::ifstream file_;
  std::string prefix_;
  LineSplitter lines_;
};

class FollowedFiles {
 public:
  /// Opens the files of the followed ranks that are not known yet.
  void take(const JobAnswer& job, const std::string& rank) {
    for (const WorkerAnswer& worker : job.workers) {
      if (!rank.empty() && worker.rank != rank) continue;
      open(worker.output.file, "[" + worker.rank + " stdout] ");
      open(worker.errors.file, "[" + worker.rank + " stderr] ");
    }
  }
  /// Call after take(). A file that appears after the first call is of a new round and is shown
  /// from its beginning.
  std::string read(bool is_alive) {
    is_first_ = false;
    std::string text;
    for (auto& [path, file] : files_)
      text += file.read(is_alive);
    return text;
  }

 private:
  void open(const std::string& path, const std::string& prefix) {
    if (!path.empty()) files_.try_emplace(path, path, prefix, is_first_);
  }

  std::map<std::string, FollowedFile> files_;  // by path
  bool is_first_ = true;
};

}  // namespace

void follow_logs(const std::vector<RunningJob>& jobs, const std::string& rank) {
  asio::io_context io(1);
  asio::steady_timer timer(io);
  FollowedFiles files;
  TailFollower tails;
  for (bool is_alive = true; is_alive;) {
    is_alive = false;
    std::string text;
    for (const RunningJob& job : jobs) {
      const std::optional<std::string> answer = ask(job.directory, "logs");
      const std::optional<JobAnswer> logs = answer ? read_answer(*answer) : std::nullopt;
      if (!logs) continue;
      is_alive = true;
      files.take(*logs, rank);
      text += tails.take(*logs, rank);
    }
    text += files.read(is_alive);
    if (!text.empty()) print(text);
    if (!is_alive) break;
    timer.expires_after(kTailPause);
    timer.wait();
  }
}

}  // namespace ddp::launcher
