#include "launcher/os/log_mux.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include "common/error.h"
#include "launcher/os/descriptors.h"
#include "launcher/plan/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;    // what one read takes
constexpr std::size_t kConsoleBytes = 4 << 20;   // queued: above it, the console is behind
constexpr std::size_t kFileBytes = 4 << 20;      // queued: above it, pipes wait
constexpr std::chrono::milliseconds kPause(1);   // between two looks at a full queue
constexpr std::chrono::seconds kConsoleWait(1);  // for a console that takes nothing
constexpr std::chrono::seconds kSecond(1);
constexpr std::chrono::seconds kBarPause(5);    // between two states of a progress bar
constexpr std::chrono::milliseconds kLook(50);  // between two looks at lines that wait
constexpr std::int64_t kTerminalLimit = 1000;   // lines per second that a person's terminal gets

std::string local_time() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(),
                                 text.size(),
                                 "%02d:%02d:%02d.%03d",
                                 parts.tm_hour,
                                 parts.tm_min,
                                 parts.tm_sec,
                                 static_cast<int>(millis));
  return std::string(text.data(), static_cast<std::size_t>(size));
}

std::size_t count_shown(const JobSpec& spec) {
  return static_cast<std::size_t>(std::count(spec.logs.shown.begin(), spec.logs.shown.end(), true));
}

}  // namespace

LogMux::LogMux(asio::io_context& io, FileWriter& writer, const JobSpec& spec)
    : writer_(writer),
      spec_(spec.logs),
      timer_(io),
      alive_(std::make_shared<bool>(true)),
      folders_{LineFolder(count_shown(spec)), LineFolder(count_shown(spec))},
      piece_(kPieceBytes, '\0') {
  for (const Console console : {FileWriter::kStdout, FileWriter::kStderr}) {
    const int fd = console == FileWriter::kStdout ? STDOUT_FILENO : STDERR_FILENO;
    const bool is_terminal = ::isatty(fd) == 1;
    limits_[console] = spec_.console_limit;
    if (!spec_.console_limit && is_terminal) limits_[console] = kTerminalLimit;
    colors_[console] = is_colored(spec_, is_terminal, spec.environment);
  }
}

LogMux::~LogMux() {
  *alive_ = false;
  for (const auto& [name, target] : filtered_)
    writer_.close(target);
}

void LogMux::finish() {
  flush();
  timer_.cancel();
}

/// Shows what still waits for equal lines.
void LogMux::flush() {
  for (const Console console : {FileWriter::kStdout, FileWriter::kStderr})
    show_folded(console, folders_[console].take_all());
}

void LogMux::enter(LogStream& stream) {
  streams_.insert(&stream);
}

void LogMux::leave(LogStream& stream) {
  flush();  // while it is known whose they are
  streams_.erase(&stream);
}

FileWriter::Target LogMux::filtered(const LogFile& file) {
  const std::string path = (file.directory->path() / file.name).string();
  const auto known = filtered_.find(path);
  if (known != filtered_.end()) return known->second;
  return filtered_[path] = writer_.open(file.directory, file.name);
}

void LogMux::fold(const LogStream& stream, std::string_view text) {
  const Clock::time_point now = Clock::now();
  LineFolder& folder = folders_[stream.console_];
  folder.add(stream.placement_.rank, text, now);
  show_folded(stream.console_, folder.take_due(now));
  if (!folder.is_empty()) wake_within(kLook);
}

void LogMux::show_folded(Console console, const std::vector<LineFolder::Line>& lines) {
  std::string block;
  for (const LineFolder::Line& line : lines) {
    const auto stream = std::find_if(streams_.begin(), streams_.end(), [&](const LogStream* one) {
      return one->console_ == console && one->placement_.rank == line.ranks.front();
    });
    if (stream == streams_.end()) continue;
    if (line.ranks.size() == 1) {
      block += (*stream)->prefix_.text((*stream)->prefix_.tells_time() ? local_time() : "");
    } else {
      block += "[" + std::to_string((*stream)->placement_.node_rank) + ":" +
               format_ranks(line.ranks) + "] ";
    }
    block += line.text;
    block += '\n';
  }
  writer_.write(console, std::move(block));
}

/// Calls look() no later than after `pause`.
void LogMux::wake_within(Clock::duration pause) {
  const Clock::time_point at = Clock::now() + pause;
  if (is_armed_ && wakes_at_ <= at) return;
  is_armed_ = true;
  wakes_at_ = at;
  timer_.expires_at(at);
  timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (!error && *alive) look();
  });
}

void LogMux::look() {
  is_armed_ = false;
  const Clock::time_point now = Clock::now();
  bool waits = false;
  for (LogStream* const stream : streams_) {
    if (stream->has_bar_) stream->show_bar(now);
    if (stream->hidden_lines_ == 0 || stream->drained_) continue;
    if (!stream->is_console_behind() && now - stream->second_ >= kSecond) {
      stream->say_hidden();
      stream->flush();
    }
    waits = waits || stream->hidden_lines_ != 0;
  }
  for (const Console console : {FileWriter::kStdout, FileWriter::kStderr}) {
    show_folded(console, folders_[console].take_due(now));
    waits = waits || !folders_[console].is_empty();
  }
  if (waits) wake_within(kLook);
}

LogStream::LogStream(asio::io_context& io,
                     LogMux& mux,
                     const Course& course,
                     const std::string& label)
    : pipe_(io),
      pause_(io),
      mux_(mux),
      writer_(mux.writer_),
      course_(course),
      console_(course.stream == WorkerStream::output ? FileWriter::kStdout : FileWriter::kStderr) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "log pipe of " + label);
  write_end_ = ends[1];
  ends[0] = move_up(ends[0]);
  boost::system::error_code error;
  pipe_.assign(ends[0], error);
  if (error) ::close(ends[0]);
  // Our end only: the worker's writes block, as on a terminal.
  if (!error) pipe_.non_blocking(true, error);
  if (error) {
    close_write_end();  // no destructor runs for what was never made
    throw SystemError(system_message("epoll_ctl", "log pipe of " + label, error.value()));
  }
  const LogFile& log = course.log_file;
  if (log.directory) file_ = writer_.open(log.directory, log.name);
  if (course.filtered_file.directory) filtered_ = mux.filtered(course.filtered_file);
  mux_.enter(*this);
}

LogStream::~LogStream() {
  close_write_end();
  mux_.leave(*this);
  if (file_) writer_.close(*file_);
}

void LogStream::set_prefix(const Prefix& prefix, const Placement& placement) {
  prefix_ = prefix;
  plain_ = prefix;
  placement_ = placement;
  if (mux_.colors_[console_]) prefix_.set_color(placement.rank);
  fill_prefixes();
}

void LogStream::close_write_end() {
  if (write_end_ >= 0) ::close(write_end_);
  write_end_ = -1;
}

void LogStream::close_read_end() {
  boost::system::error_code ignored;
  pipe_.close(ignored);
  pause_.cancel();
}

bool LogStream::is_logged() const {
  return file_ && !writer_.has_failed(*file_);
}

bool LogStream::is_console_behind() const {
  return writer_.queued_bytes(console_) > kConsoleBytes;
}

bool LogStream::is_console_stuck() const {
  return writer_.stalled_for(console_) >= kConsoleWait;
}

bool LogStream::must_wait() const {
  if (is_logged()) return writer_.queued_bytes(*file_) > kFileBytes;
  return is_shown() && is_console_behind() && !is_console_stuck();
}

asio::awaitable<void> LogStream::pump() {
  while (true) {
    const auto [error] =
        co_await pipe_.async_wait(asio::posix::stream_descriptor::wait_read, kResult);
    if (error) break;  // closed
    // Looked at last, one stream after the other: so what is queued is at most a piece too much.
    while (must_wait()) {
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
  hides_ = false;
  splitter_.finish([this](std::string_view line) { take_line(line); });
  say_hidden();
  flush();
  boost::system::error_code ignored;
  pipe_.close(ignored);
  drained_ = true;
}

void LogStream::take(std::string_view bytes) {
  if (file_) writer_.write(*file_, std::string(bytes));
  hides_ = is_console_behind() && (is_logged() || is_console_stuck());
  fill_prefixes();
  splitter_.feed(bytes, [this](std::string_view line) { take_line(line); });
  flush();
  const bool has_bar = is_shown() && splitter_.pending().find('\r') != std::string_view::npos;
  if (has_bar && !has_bar_) {
    bar_at_ = Clock::now();
    mux_.wake_within(kBarPause);
  }
  has_bar_ = has_bar;
}

void LogStream::take_line(std::string_view line) {
  if (stacks_ && stacks_->take(line)) return;
  note_tail(line);
  if (!is_shown()) return;
  if (filtered_) copy(line);
  if (hides_ || is_over_limit()) {
    ++hidden_lines_;
    return;
  }
  say_hidden();
  show(line);
}

/// One of the second's lines is used up by asking.
bool LogStream::is_over_limit() {
  const std::optional<std::int64_t>& limit = mux_.limits_[console_];
  if (!limit || !is_logged()) return false;
  if (const Clock::time_point now = Clock::now(); now - second_ >= kSecond) {
    second_ = now;
    shown_lines_ = 0;
  }
  return ++shown_lines_ > *limit;
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

/// torchrun's filtered files: lines as on the console, raw.
void LogStream::copy(std::string_view line) {
  const auto& texts = mux_.spec_.duplicates[static_cast<std::size_t>(course_.stream)];
  const bool matches = std::any_of(texts.begin(), texts.end(), [line](const std::string& text) {
    return line.find(text) != std::string_view::npos;
  });
  if (matches) copies_.append(plain_prefix_).append(line).append("\n");
}

void LogStream::say_hidden() {
  if (hidden_lines_ == 0) return;
  const bool is_one = hidden_lines_ == 1;
  const std::string lines =
      "... " + std::to_string(hidden_lines_) + (is_one ? " line " : " lines ");
  hidden_lines_ = 0;
  if (is_logged()) {
    show(lines + (is_one ? "is" : "are") + " in the log file only");
  } else {
    show(lines + (is_one ? "was" : "were") + " dropped: the console takes nothing");
  }
}

/// Its newest state, if there is a new one.
void LogStream::show_bar(Clock::time_point now) {
  if (drained_) return;
  if (now - bar_at_ >= kBarPause) {
    if (bar_bytes_ != bytes_ && !is_console_behind()) {
      fill_prefixes();
      show(splitter_.pending());
      flush();
    }
    bar_at_ = now;
    bar_bytes_ = bytes_;
  }
  mux_.wake_within(bar_at_ + kBarPause - now);
}

void LogStream::flush() {
  writer_.write(console_, std::move(block_));
  if (filtered_) writer_.write(*filtered_, std::move(copies_));
  block_.clear();
  copies_.clear();
  if (hidden_lines_ != 0) mux_.wake_within(kLook);
}

void LogStream::fill_prefixes() {
  const std::string time = prefix_.tells_time() ? local_time() : "";
  shown_prefix_ = prefix_.text(time);
  if (filtered_) plain_prefix_ = plain_.text(time);
}

void LogStream::note_tail(std::string_view line) {
  line = line.substr(0, kTailBytes);
  if (tail_.size() < kTailLines) {
    tail_.emplace_back(line);
  } else {
    tail_[tail_next_++ % kTailLines].assign(line);
  }
}

std::vector<std::string> LogStream::tail() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < tail_.size(); ++i) {
    append_clean(lines.emplace_back(), tail_[(tail_next_ + i) % tail_.size()]);
  }
  return lines;
}

}  // namespace ddp::launcher
