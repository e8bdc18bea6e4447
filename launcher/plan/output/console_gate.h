// What of a worker's stream goes to the console, and when its pipe has to wait, decided: one gate
// for each stream. Promises: nothing is left out silently, as what is hidden is counted and said;
// what is in no file is hidden only when the console takes nothing at all; a progress bar, which
// has no newline for long, is shown every so often. Pure: the caller says what time it is and what
// is queued. Trap: a line that is let through uses up one of the second's lines, so ask once a
// line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ddp::launcher {

/// Lines per second that a console gets of one stream that has a file: as `wanted`, else what a
/// person reads on a terminal; none: all of them.
std::optional<std::int64_t> console_limit(std::optional<std::int64_t> wanted, bool is_terminal);

class ConsoleGate {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kConsoleBytes = 4 << 20;   // queued: above it, it is behind
  static constexpr std::chrono::seconds kConsoleWait{1};  // for a console that takes nothing
  static constexpr std::size_t kFileBytes = 4 << 20;      // queued: above it, pipes wait
  static constexpr std::chrono::seconds kSecond{1};
  // Between two states of a progress bar that are a line each, or drawn in one place.
  static constexpr std::chrono::milliseconds kBarPause{5000};
  static constexpr std::chrono::milliseconds kBarPauseInPlace{100};
  static constexpr std::chrono::milliseconds kPollInterval{50};  // between two looks at what waits

  /// What the console and the file of the stream have not taken yet.
  struct Queues {
    std::size_t console_bytes = 0;
    std::chrono::nanoseconds console_stalled{0};  // since it took something
    std::optional<std::size_t> file_bytes;        // none: its lines are in no file
  };

  ConsoleGate(bool is_shown,
              std::optional<std::int64_t> limit,
              std::chrono::milliseconds bar_pause = kBarPause)
      : is_shown_(is_shown), limit_(limit), bar_pause_(bar_pause) {}

  /// Whether the pipe is not to be read now.
  [[nodiscard]] bool must_wait(const Queues& queues) const;

  /// The next lines come in one piece.
  void begin(const Queues& queues, Time now);
  /// Whether a line of the piece is shown; else it is counted as hidden.
  [[nodiscard]] bool take_line() { return is_open_ || take_one_of_limit(); }
  /// The line that is not whole yet holds a progress bar, or does not, since begin().
  void note_bar(bool has_bar);

  /// Between two pieces, of which `bytes` have come in all: what is to be shown now.
  struct Due {
    bool bar = false;     // the newest state of the bar
    bool hidden = false;  // take_hidden()
  };
  [[nodiscard]] Due take_due(const Queues& queues, std::uint64_t bytes, Time now);
  /// When to look next; none: nothing waits.
  [[nodiscard]] std::optional<Time> next_look() const;

  [[nodiscard]] bool has_hidden() const { return hidden_lines_ != 0; }
  /// The line that says what was hidden, which is then said; empty: nothing was.
  [[nodiscard]] std::string take_hidden();

 private:
  [[nodiscard]] bool take_one_of_limit();

  const bool is_shown_;
  const std::optional<std::int64_t> limit_;
  const std::chrono::milliseconds bar_pause_;
  Queues queues_;  // these two as last told
  Time now_;
  bool is_open_ = true;           // every line of the piece is shown
  Time second_;                   // when the limit's second began
  std::int64_t shown_lines_ = 0;  // in it
  std::size_t hidden_lines_ = 0;  // not yet said
  bool has_bar_ = false;
  Time bar_at_;                  // when it was last shown, or began
  std::uint64_t bar_bytes_ = 0;  // that had come then
};

}  // namespace ddp::launcher
