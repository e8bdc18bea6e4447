#include "launcher/plan/output/console_gate.h"

#include <algorithm>

namespace ddp::launcher {
namespace {

constexpr std::int64_t kTerminalLimit = 1000;

bool is_behind(const ConsoleGate::Queues& queues) {
  return queues.console_bytes > ConsoleGate::kConsoleBytes;
}

bool is_stuck(const ConsoleGate::Queues& queues) {
  return queues.console_stalled >= ConsoleGate::kConsoleWait;
}

/// Whether lines are hidden, whatever the limit.
bool hides(const ConsoleGate::Queues& queues) {
  return is_behind(queues) && (queues.file_bytes || is_stuck(queues));
}

}  // namespace

std::optional<std::int64_t> console_limit(std::optional<std::int64_t> wanted, bool is_terminal) {
  if (!wanted && is_terminal) return kTerminalLimit;
  return wanted;
}

bool ConsoleGate::must_wait(const Queues& queues) const {
  if (queues.file_bytes) return *queues.file_bytes > kFileBytes;
  return is_shown_ && is_behind(queues) && !is_stuck(queues);
}

void ConsoleGate::begin(const Queues& queues, Time now) {
  queues_ = queues;
  now_ = now;
  const bool has_limit = limit_ && queues.file_bytes;
  is_open_ = !has_limit && !hides(queues);
}

/// Whether a line of a piece that is not open is shown.
bool ConsoleGate::take_one_of_limit() {
  if (hides(queues_)) {
    ++hidden_lines_;
    return false;
  }
  if (now_ - second_ >= kSecond) {
    second_ = now_;
    shown_lines_ = 0;
  }
  if (++shown_lines_ <= *limit_) return true;
  ++hidden_lines_;
  return false;
}

void ConsoleGate::note_unfinished(bool is_there, std::chrono::milliseconds pause) {
  if (is_there && !has_unfinished_) {
    shown_at_ = now_;
    wait_ = pause;
  }
  has_unfinished_ = is_there;
}

ConsoleGate::Due ConsoleGate::take_due(const Queues& queues, std::uint64_t bytes, Time now) {
  begin(queues, now);
  Due due;
  if (has_unfinished_ && now - shown_at_ >= wait_) {
    due.unfinished = bytes != shown_bytes_ && !is_behind(queues);
    shown_at_ = now;
    shown_bytes_ = bytes;
    wait_ = bar_pause_;
  }
  due.hidden = has_hidden() && !is_behind(queues) && now - second_ >= kSecond;
  return due;
}

std::optional<ConsoleGate::Time> ConsoleGate::next_look() const {
  if (!has_hidden() && !has_unfinished_) return std::nullopt;
  const Time again = shown_at_ + wait_;
  if (!has_hidden()) return again;
  return has_unfinished_ ? std::min(now_ + kPollInterval, again) : now_ + kPollInterval;
}

std::string ConsoleGate::take_hidden() {
  if (!has_hidden()) return "";
  const bool is_one = hidden_lines_ == 1;
  std::string text = "... " + std::to_string(hidden_lines_) + (is_one ? " line " : " lines ");
  hidden_lines_ = 0;
  if (queues_.file_bytes) return text + (is_one ? "is" : "are") + " in the log file only";
  return text + (is_one ? "was" : "were") + " dropped: the console takes nothing";
}

}  // namespace ddp::launcher
