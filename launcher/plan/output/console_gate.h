// Decides which lines of a worker's stream go to the console, and when its pipe has to wait: one
// gate per stream. Pure: the caller passes the time and the queues.
// Promises: hidden lines are counted, and the number is printed. Lines that are in no file are
// hidden only when the console takes nothing at all. A progress bar, which has no newline for long,
// is shown periodically; so is a part of a line, the first time once it has stood for kPartPause.
// Trap: each call of take_line() that returns true uses up one line of this second's limit; call it
// once per line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace ddp::launcher {

/// Lines per second that a console gets of a stream with a file: `wanted`, else as many as a person
/// reads on a terminal; none: all of them.
std::optional<std::int64_t> console_limit(std::optional<std::int64_t> wanted, bool is_terminal);

class ConsoleGate {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kConsoleBytes = 4 << 20;  // queued: above this the console is behind
  static constexpr std::chrono::seconds kConsoleWait{1};  // a console that takes nothing
  static constexpr std::size_t kFileBytes = 4 << 20;      // queued: above this pipes wait
  static constexpr std::chrono::seconds kSecond{1};
  // Between two states of a progress bar that are one line each, or drawn in place.
  static constexpr std::chrono::milliseconds kBarPause{5000};
  static constexpr std::chrono::milliseconds kBarPauseInPlace{100};
  // From the beginning of a part to the first time that it is shown.
  static constexpr std::chrono::milliseconds kPartPause{100};
  static constexpr std::chrono::milliseconds kPollInterval{50};  // between two checks of the queues

  /// Bytes that the console and the stream's file have not taken yet.
  struct Queues {
    std::size_t console_bytes = 0;
    std::chrono::nanoseconds console_stalled{0};  // since it last took bytes
    std::optional<std::size_t> file_bytes;        // none: the stream has no file
  };

  ConsoleGate(bool is_shown,
              std::optional<std::int64_t> limit,
              std::chrono::milliseconds bar_pause = kBarPause)
      : is_shown_(is_shown), limit_(limit), bar_pause_(bar_pause), wait_(bar_pause) {}

  /// Whether the pipe must not be read now.
  [[nodiscard]] bool must_wait(const Queues& queues) const;

  /// Begins a piece: the next lines come together.
  void begin(const Queues& queues, Time now);
  /// Whether to show the next line of the piece; else it is counted as hidden.
  [[nodiscard]] bool take_line() { return is_open_ || take_one_of_limit(); }
  /// Whether the unfinished line holds a progress bar, since begin().
  void note_bar(bool has_bar) { note_unfinished(has_bar, bar_pause_); }
  /// The unfinished line holds a part of a line, since begin(). `is_new`: no byte of it was there
  /// before.
  void note_part(bool is_new) {
    if (is_new) note_bar(false);
    note_unfinished(true, kPartPause);
  }

  /// What to show now, between two pieces. `bytes`: read from the stream so far.
  struct Due {
    bool unfinished = false;  // the newest state of the bar or part
    bool hidden = false;      // take_hidden()
  };
  [[nodiscard]] Due take_due(const Queues& queues, std::uint64_t bytes, Time now);
  /// When to call take_due() next; none: nothing waits.
  [[nodiscard]] std::optional<Time> next_look() const;

  [[nodiscard]] bool has_hidden() const { return hidden_lines_ != 0; }
  /// Takes the line that tells how many lines were hidden; empty: none.
  [[nodiscard]] std::string take_hidden();

 private:
  [[nodiscard]] bool take_one_of_limit();
  void note_unfinished(bool is_there, std::chrono::milliseconds pause);

  const bool is_shown_;
  const std::optional<std::int64_t> limit_;
  const std::chrono::milliseconds bar_pause_;
  Queues queues_;  // this and the next as last passed
  Time now_;
  bool is_open_ = true;             // every line of the piece is shown
  Time second_;                     // when the limit's second began
  std::int64_t shown_lines_ = 0;    // in that second
  std::size_t hidden_lines_ = 0;    // not printed yet
  bool has_unfinished_ = false;     // a bar or a part of a line
  Time shown_at_;                   // when it was last shown, or began
  std::chrono::milliseconds wait_;  // from then until it is shown again
  std::uint64_t shown_bytes_ = 0;   // of the stream, when it was last shown
};

}  // namespace ddp::launcher
