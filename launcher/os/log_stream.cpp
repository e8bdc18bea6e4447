#include "launcher/os/log_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/error.h"
#include "common/text/contains.h"
#include "common/text/time_text.h"
#include "launcher/os/descriptors.h"
#include "launcher/os/log_mux.h"
#include "launcher/plan/output/bar_line.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kPause(1);  // between two checks of a full queue

std::string local_time() {
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format(
      "{}.{:03}", local_text(std::chrono::system_clock::to_time_t(now), "%H:%M:%S"), millis);
}

}  // namespace

LogStream::LogStream(asio::io_context& io,
                     LogMux& mux,
                     const Route& route,
                     const std::string& label)
    : pipe_(io),
      pause_(io),
      mux_(mux),
      writer_(mux.writer_),
      route_(route),
      console_(route.stream == WorkerStream::output ? FileWriter::kStdout : FileWriter::kStderr),
      gate_(route.plan.is_shown,
            mux.limits_[console_],
            mux.in_place_[console_] ? ConsoleGate::kBarPauseInPlace : ConsoleGate::kBarPause),
      in_place_(mux.in_place_[console_]) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "log pipe of " + label);
  write_end_ = ends[1];
  ends[0] = move_to_high_number(ends[0]);
  boost::system::error_code error;
  pipe_.assign(ends[0], error);
  if (error) ::close(ends[0]);
  // Only our end is non-blocking: the worker's writes block, as on a terminal.
  if (!error) pipe_.non_blocking(true, error);
  if (error) {
    close_write_end();  // no destructor runs after an exception here
    throw SystemError(system_message("epoll_ctl", "log pipe of " + label, error.value()));
  }
  const LogFile& log = route.log_file;
  if (log.directory) file_ = writer_.open(log.directory, log.name);
  if (route.filtered_file.directory) filtered_ = mux.filtered(route.filtered_file);
  mux_.enter(*this);
}

LogStream::~LogStream() {
  close_write_end();
  drop_part();
  mux_.leave(*this);
  if (file_) writer_.close(*file_);
}

void LogStream::set_prefix(const Prefix& prefix, const Placement& placement) {
  prefix_ = prefix;
  plain_ = prefix;
  placement_ = placement;
  mux_.bar_rank_.reset();
  if (mux_.colors_[console_]) prefix_.set_color(placement.rank);
  fill_prefixes();
}

void LogStream::close_write_end() {
  if (write_end_ >= 0) ::close(write_end_);
  write_end_ = -1;
}

void LogStream::close_read_end() {
  close_quietly(pipe_);
  pause_.cancel();
}

ConsoleGate::Queues LogStream::queues() const {
  ConsoleGate::Queues queues;
  queues.console_bytes = writer_.queued_bytes(console_);
  queues.console_stalled = writer_.stalled_for(console_);
  if (file_ && !writer_.has_failed(*file_)) queues.file_bytes = writer_.queued_bytes(*file_);
  return queues;
}

asio::awaitable<void> LogStream::pump() {
  // Wait for readiness, then read: so all streams share one buffer of the mux. A pending read would
  // need a buffer for each of hundreds of pipes.
  while (true) {
    const auto [error] =
        co_await pipe_.async_wait(asio::posix::stream_descriptor::wait_read, kResult);
    if (error) break;  // closed
    // Checked directly before the read, so the queue exceeds its limit by at most one piece.
    while (gate_.must_wait(queues())) {
      held_back_ = true;
      pause_.expires_after(kPause);
      co_await pause_.async_wait(kResult);
      if (!pipe_.is_open()) break;
    }
    held_back_ = false;
    if (!pipe_.is_open()) break;
    const ssize_t size = ::read(pipe_.native_handle(), mux_.piece_.data(), mux_.piece_.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size <= 0) break;  // end of file
    bytes_ += static_cast<std::size_t>(size);
    take(std::string_view(mux_.piece_).substr(0, static_cast<std::size_t>(size)));
  }
  ConsoleGate::Queues last = queues();
  last.console_bytes = 0;  // show the rest, however far behind the console is
  gate_.begin(last, Clock::now());
  splitter_.finish([this](std::string_view line) { take_line(line); });
  print_nested();
  print_hidden();
  drop_bar();
  drop_part();
  flush();
  close_quietly(pipe_);
  drained_ = true;
}

void LogStream::take(std::string_view bytes) {
  // The file gets all bytes first, so that lines hidden from the console can be read there.
  if (file_) writer_.write(*file_, std::string(bytes));
  gate_.begin(queues(), Clock::now());
  fill_prefixes();
  has_other_text_ = false;
  has_ended_line_ = false;
  splitter_.feed(bytes, [this](std::string_view line) { take_line(line); });
  note_unfinished();
  flush();
  wake();
}

void LogStream::take_line(std::string_view line) {
  has_ended_line_ = true;
  const std::size_t printed = std::exchange(printed_bytes_, 0);
  // Stacks are hundreds of lines, and would push the worker's last words out of the tail.
  if (stacks_ && stacks_->take(line)) return;
  note_tail(line);
  if (!is_shown()) return;
  if (filtered_) copy(line);
  if (in_place_ ? drop_bar_line(line) : hold_back_nested(line)) return;
  const std::string_view rest = line.substr(printed);
  if (printed > 0 && rest == LineSplitter::kUnfinished) return;  // it has ended at a prompt
  if (!gate_.take_line()) return;
  print_hidden();
  show(rest);
}

/// Whether the line is not shown: a bar of another rank, or nested. The last state of the drawn bar
/// is shown as a line.
bool LogStream::drop_bar_line(std::string_view line) {
  const BarLine kind = bar_line(line);
  if (kind == BarLine::below || (kind == BarLine::end && !mux_.is_bar_drawn(*this))) return true;
  has_other_text_ = true;
  return false;
}

/// Keeps lines of nested bars back: one is shown each kBarPause, and the last one before other
/// lines.
bool LogStream::hold_back_nested(std::string_view line) {
  const bool is_bar = is_of_nested_bars(line);
  is_in_nested_ = is_bar || (is_in_nested_ && line.empty());  // down to a third bar
  if (is_bar) nested_ = line;
  if (!is_in_nested_ || Clock::now() - nested_at_ >= ConsoleGate::kBarPause) print_nested();
  return is_in_nested_;
}

void LogStream::print_nested() {
  if (nested_.empty()) return;
  nested_at_ = Clock::now();
  const std::string line = std::exchange(nested_, "");
  if (!gate_.take_line()) return;
  print_hidden();
  show(line);
}

/// Checks whether the unfinished line is shown before it ends: a bar, or a part of a line.
void LogStream::note_unfinished() {
  const std::string_view pending = splitter_.pending();
  const bool may_be_bar = pending.find('\r') != std::string_view::npos;
  const bool has_part =
      is_shown() && mux_.is_terminal_[console_] && !may_be_bar && !pending.empty() && !stacks_;
  // After an answer without output the same prompt comes again.
  const bool is_answered = printed_bytes_ > 0;
  if (!has_part || has_ended_line_ || is_answered) drop_part();
  if (has_part) gate_.note_part(has_ended_line_);
  if (!in_place_) {
    if (!has_part) gate_.note_bar(is_shown() && may_be_bar);
    return;
  }
  const bool has_bar = is_shown() && mux_.is_bar_drawn(*this) && !bar_state(pending).empty();
  if (!has_part) gate_.note_bar(has_bar);
  if (has_bar && has_other_text_ && is_bar_drawn_) show_bar();  // the previous bar has ended
  if (!has_bar && (has_other_text_ || may_be_bar)) drop_bar();
  const std::size_t old = old_states(pending);
  printed_bytes_ -= std::min(printed_bytes_, old);
  splitter_.forget(old);
}

void LogStream::show_unfinished() {
  fill_prefixes();
  const bool is_bar = splitter_.pending().find('\r') != std::string_view::npos;
  if (!is_bar) return show_part();
  if (in_place_) return show_bar();
  show(splitter_.pending());
}

void LogStream::show_bar() {
  is_bar_drawn_ = true;
  writer_.show_bar(shown_prefix_ + bar_state(splitter_.pending()));
}

void LogStream::drop_bar() {
  if (std::exchange(is_bar_drawn_, false)) writer_.show_bar("");
}

/// Draws an unfinished line (a prompt, dots) below all others and leaves the cursor behind it;
/// lines of other ranks come above. Enter ends it on the terminal, so what the worker prints next
/// begins a new line, without the prompt. If it cannot be drawn, it is printed as a line, and its
/// rest as another.
void LogStream::show_part() {
  const std::string_view pending = splitter_.pending();
  std::string text = shown_prefix_;
  append_clean(text, pending.substr(printed_bytes_));
  if (text.find_first_not_of(' ', shown_prefix_.size()) == std::string::npos) return;
  const bool has_place = mux_.part_owner_ == nullptr || mux_.part_owner_ == this;
  if (in_place_ && has_place && first_columns(text, FileWriter::footer_width()) == text) {
    mux_.part_owner_ = this;
    return writer_.show_part(text);
  }
  show(pending.substr(printed_bytes_));
  printed_bytes_ = pending.size();
  gate_.note_bar(false);  // until more bytes come
}

void LogStream::drop_part() {
  if (mux_.part_owner_ != this) return;
  mux_.part_owner_ = nullptr;
  writer_.show_part("");
}

void LogStream::show(std::string_view line) {
  if (mux_.spec_.fold) {
    std::string text;
    append_clean(text, line);
    mux_.fold(*this, text);
    return;
  }
  block_ += shown_prefix_;
  append_clean(block_, line);
  block_ += '\n';
}

/// Copies a line to torchrun's filtered file, if it has one of the texts.
void LogStream::copy(std::string_view line) {
  const auto& texts = mux_.spec_.filters[static_cast<std::size_t>(route_.stream)];
  const bool matches =
      std::ranges::any_of(texts, [line](const std::string& text) { return contains(line, text); });
  if (matches) copies_.append(plain_prefix_).append(line).append("\n");
}

void LogStream::print_hidden() {
  if (gate_.has_hidden()) show(gate_.take_hidden());
}

void LogStream::show_due(Clock::time_point now) {
  if (drained_) return;
  const ConsoleGate::Due due = gate_.take_due(queues(), bytes_, now);
  if (due.unfinished) show_unfinished();
  // Looked at again and again: a busy machine may take a while from the prompt to the read.
  const std::size_t pending = splitter_.pending().size();
  if (mux_.part_owner_ == this && printed_bytes_ < pending && route_.waits_for_answer()) {
    printed_bytes_ = pending;
    gate_.note_bar(false);
  }
  if (due.hidden) print_hidden();
  if (due.unfinished || due.hidden) flush();
  wake();
}

/// Has show_due() called when something is due, even if no byte comes until then.
void LogStream::wake() {
  if (const auto at = gate_.next_look()) mux_.wake_at(*at);
}

void LogStream::flush() {
  writer_.write(console_, std::move(block_));
  if (filtered_) writer_.write(*filtered_, std::move(copies_));
  block_.clear();
  copies_.clear();
}

std::string LogStream::prefix() const {
  return prefix_.text(prefix_.tells_time() ? local_time() : "");
}

void LogStream::fill_prefixes() {
  const std::string time = prefix_.tells_time() ? local_time() : "";
  shown_prefix_ = prefix_.text(time);
  if (filtered_) plain_prefix_ = plain_.text(time);
}

void LogStream::note_tail(std::string_view line) {
  ++lines_;
  line = line.substr(0, kTailBytes);
  if (tail_.size() < kTailLines) {
    tail_.emplace_back(line);
  } else {
    tail_[tail_next_++ % kTailLines].assign(line);
  }
}

std::filesystem::path LogStream::file() const {
  if (!route_.log_file.directory) return {};
  return route_.log_file.directory->path() / route_.log_file.name;
}

std::vector<std::string> LogStream::tail() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < tail_.size(); ++i)
    append_clean(lines.emplace_back(), tail_[(tail_next_ + i) % tail_.size()]);
  return lines;
}

}  // namespace ddp::launcher
