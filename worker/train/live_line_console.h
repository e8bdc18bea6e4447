// The live line of a run that no launcher of ours shows: the last line of a terminal, rewritten in
// place below all other output; elsewhere a line of its own every 30 s.
// Promises: what is written to std::cout and std::cerr comes out whole, in order and at once; where
// no live line is shown, both streams are left alone. Trap: output that bypasses these streams
// (printf, a child) overwrites the line from its start, and the end of the line may stay behind it.
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

/// The last line of a terminal, and what is printed above it. Thread-safe.
class LastLine {
 public:
  /// "" removes the line. It must fit into a line of the terminal.
  void show(std::string_view line);
  /// Writes `text` above the line, through `below`.
  void write(std::streambuf& below, std::string_view text);

 private:
  void draw();

  std::mutex mutex_;
  std::string line_;
  bool is_drawn_ = false;
  bool is_at_start_ = true;  // the text above it does not end inside a line
};

/// While it lives, what is written to `stream` appears above the line.
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

/// The buffers of std::cerr and std::cout once there is a live line. Must live as long as any
/// thread may print: to the end of the process.
struct Screen {
  LastLine line;
  std::vector<std::unique_ptr<AboveLine>> streams;  // those that are terminals
};

/// Shows the line until it is destroyed.
class LiveLineConsole {
 public:
  /// `page` and `screen` outlive it. `epochs` is the job's number of epochs. Rewrites in place if
  /// stderr is a terminal that no other rank prints to. Errors: none; if no thread can be started,
  /// it logs that and shows nothing.
  LiveLineConsole(const ProgressPage& page,
                  std::int64_t epochs,
                  Progress progress,
                  bool has_peers,
                  Screen& screen);
  LiveLineConsole(const LiveLineConsole&) = delete;
  LiveLineConsole& operator=(const LiveLineConsole&) = delete;
  ~LiveLineConsole();

 private:
  void run(const std::stop_token& stop);
  std::vector<LinePart> probe();

  const ProgressPage& page_;
  LiveLine live_line_;
  const std::chrono::steady_clock::time_point began_at_ = std::chrono::steady_clock::now();
  bool is_in_place_;
  LastLine& line_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // ends first
};

}  // namespace ddp::worker
