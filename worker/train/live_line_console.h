// Shows the progress of a run that was not started by our launcher: on a terminal as its last line,
// rewritten in place below all other output; elsewhere as a new line every 30 s.
// Promises: what is written to std::cout and std::cerr comes out whole, in order and at once;
// without a live line both streams are not touched. Trap: output that bypasses these streams
// (printf, a child process) overwrites the line from its start, and may leave the line's end
// visible.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <ostream>
#include <stop_token>
#include <streambuf>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/progress/live_line.h"
#include "common/progress/progress_page.h"
#include "common/progress/rank_progress.h"

namespace ddp::worker {

/// The last line of a terminal, and the output above it. Thread-safe.
class LastLine {
 public:
  /// Shows `line`, which must fit into the terminal's width; "" removes the line.
  void show(std::string_view line);
  /// Writes `text` to `below` so that it appears above the line.
  void write(std::streambuf& below, std::string_view text);

 private:
  void draw();

  std::mutex mutex_;
  std::string line_;
  bool is_drawn_ = false;
  bool is_at_start_ = true;  // the output above ended with a line break
};

/// While it exists, what is written to `stream` appears above the line.
class AboveLine : public std::streambuf {
 public:
  AboveLine(std::ostream& stream, LastLine& line)
      : stream_(stream), line_(line), below_(stream.rdbuf(this)) {}
  AboveLine(const AboveLine&) = delete;
  AboveLine& operator=(const AboveLine&) = delete;
  ~AboveLine() override { stream_.rdbuf(below_); }

 protected:
  int_type overflow(int_type letter) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override { return below_->pubsync(); }

 private:
  std::ostream& stream_;
  LastLine& line_;
  std::streambuf* below_;
};

/// The stream buffers of std::cerr and std::cout once there is a live line. Any thread may use
/// them, so they must live to the end of the process.
struct Screen {
  LastLine line;
  std::vector<std::unique_ptr<AboveLine>> streams;  // those that are terminals
};

/// Shows the live line until it is destroyed.
class LiveLineConsole {
 public:
  /// `page` and `screen` outlive it. `epochs` is train.epochs. Rewrites in place if stderr is a
  /// terminal and there are no peers, which might print to it. Errors: none; if no thread can be
  /// started, it logs that and shows nothing.
  LiveLineConsole(const ProgressPage& page,
                  std::int64_t epochs,
                  ProgressMode progress,
                  bool has_peers,
                  Screen& screen);
  LiveLineConsole(const LiveLineConsole&) = delete;
  LiveLineConsole& operator=(const LiveLineConsole&) = delete;
  ~LiveLineConsole();

 private:
  void run(const std::stop_token& stop);
  std::vector<LinePart> next_parts();

  const ProgressPage& page_;
  LiveLine live_line_;
  const std::chrono::steady_clock::time_point began_at_ = std::chrono::steady_clock::now();
  bool is_in_place_;
  LastLine& line_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // declared last: it ends before the other members
};

}  // namespace ddp::worker
