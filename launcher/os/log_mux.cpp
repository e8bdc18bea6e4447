#include "launcher/os/log_mux.h"

#include <unistd.h>

#include <algorithm>
#include <climits>

#include "common/text/join_words.h"
#include "launcher/plan/output/console_gate.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;  // of one read

std::size_t count_shown(const JobSpec& spec) {
  return static_cast<std::size_t>(std::ranges::count(spec.logs.shown, true));
}

}  // namespace

LogMux::LogMux(asio::io_context& io, FileWriter& writer, const JobSpec& spec)
    : writer_(writer),
      spec_(spec.logs),
      timer_(io),
      alive_(std::make_shared<bool>(true)),
      folders_{LineFolder(count_shown(spec)), LineFolder(count_shown(spec))},
      piece_(kPieceBytes, '\0') {
  for (const auto console : {FileWriter::kStdout, FileWriter::kStderr}) {
    const int fd = console == FileWriter::kStdout ? STDOUT_FILENO : STDERR_FILENO;
    const bool is_terminal = ::isatty(fd) == 1;
    is_terminal_[console] = is_terminal;
    limits_[console] = console_limit(spec_.console_limit, is_terminal);
    colors_[console] = is_colored(spec_, is_terminal, spec.environment);
    in_place_[console] =
        is_terminal && writer.has_terminal() && spec_.progress == ProgressMode::automatic;
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

/// Shows all lines that wait for equal ones.
void LogMux::flush() {
  for (const auto console : {FileWriter::kStdout, FileWriter::kStderr})
    show_folded(console, folders_[console].take_all());
}

bool LogMux::is_bar_drawn(const LogStream& stream) {
  if (!bar_rank_) {
    for (const LogStream* const one : streams_)
      if (one->is_shown()) bar_rank_ = std::min(bar_rank_.value_or(INT_MAX), one->placement().rank);
  }
  return stream.placement().rank == bar_rank_;
}

void LogMux::enter(LogStream& stream) {
  streams_.insert(&stream);
}

void LogMux::leave(LogStream& stream) {
  flush();  // while the streams are still known
  streams_.erase(&stream);
  bar_rank_.reset();
}

FileWriter::Target LogMux::filtered(const LogFile& file) {
  const std::string path = (file.directory->path() / file.name).string();
  const auto known = filtered_.find(path);
  if (known != filtered_.end()) return known->second;
  return filtered_[path] = writer_.open(file.directory, file.name);
}

void LogMux::fold(const LogStream& stream, std::string_view text) {
  const Clock::time_point now = Clock::now();
  LineFolder& folder = folders_[stream.console()];
  folder.add(stream.placement().rank, text, now);
  show_folded(stream.console(), folder.take_due(now));
  if (!folder.is_empty()) wake_at(now + ConsoleGate::kPollInterval);
}

void LogMux::show_folded(FileWriter::Target console, const std::vector<LineFolder::Line>& lines) {
  std::string block;
  for (const LineFolder::Line& line : lines) {
    const auto stream = std::ranges::find_if(streams_, [&](const LogStream* one) {
      return one->console() == console && one->placement().rank == line.ranks.front();
    });
    if (stream == streams_.end()) continue;
    if (line.ranks.size() == 1) {
      block += (*stream)->prefix();
    } else {
      block += "[" + std::to_string((*stream)->placement().node_rank) + ":" +
               join_ranges(line.ranks) + "] ";
    }
    block += line.text;
    block += '\n';
  }
  writer_.write(console, std::move(block));
}

/// Calls show_due() no later than `at`.
void LogMux::wake_at(Clock::time_point at) {
  if (is_armed_ && wakes_at_ <= at) return;
  is_armed_ = true;
  wakes_at_ = at;
  timer_.expires_at(at);
  timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (!error && *alive) show_due();
  });
}

void LogMux::show_due() {
  is_armed_ = false;
  const Clock::time_point now = Clock::now();
  for (LogStream* const stream : streams_)
    stream->show_due(now);
  for (const auto console : {FileWriter::kStdout, FileWriter::kStderr}) {
    show_folded(console, folders_[console].take_due(now));
    if (!folders_[console].is_empty()) wake_at(now + ConsoleGate::kPollInterval);
  }
}

}  // namespace ddp::launcher
