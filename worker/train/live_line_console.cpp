#include "worker/train/live_line_console.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <system_error>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/progress/terminal.h"
#include "worker/save/stop_signals_blocked.h"

namespace ddp::worker {
namespace {

constexpr std::chrono::seconds kInPlace{1};

void put(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

LiveLine::Rules rules_for(std::int64_t epochs, ProgressMode progress) {
  LiveLine::Rules rules;
  rules.progress = progress;
  rules.epochs = epochs;
  return rules;
}

}  // namespace

void LastLine::show(std::string_view line) {
  const std::lock_guard lock(mutex_);
  line_ = line;
  if (is_drawn_) put(kEraseLine);
  is_drawn_ = false;
  draw();
}

void LastLine::write(std::streambuf& below, std::string_view text) {
  if (text.empty()) return;
  const std::lock_guard lock(mutex_);
  if (is_drawn_) put(kEraseLine);
  is_drawn_ = false;
  below.sputn(text.data(), static_cast<std::streamsize>(text.size()));
  below.pubsync();
  is_at_start_ = text.back() == '\n';
  draw();
}

/// Precondition: the lock is held.
void LastLine::draw() {
  if (line_.empty() || !is_at_start_) return;
  put(line_ + "\r");
  is_drawn_ = true;
}

AboveLine::int_type AboveLine::overflow(int_type letter) {
  if (traits_type::eq_int_type(letter, traits_type::eof())) return traits_type::not_eof(letter);
  const char one = traits_type::to_char_type(letter);
  line_.write(*below_, {&one, 1});
  return letter;
}

std::streamsize AboveLine::xsputn(const char* text, std::streamsize size) {
  line_.write(*below_, {text, static_cast<std::size_t>(size)});
  return size;
}

LiveLineConsole::LiveLineConsole(const ProgressPage& page,
                                 std::int64_t epochs,
                                 ProgressMode progress,
                                 bool has_peers,
                                 Screen& screen)
    : page_(page),
      live_line_(rules_for(epochs, progress)),
      is_in_place_(progress == ProgressMode::automatic && !has_peers && can_rewrite(STDERR_FILENO)),
      line_(screen.line) {
  if (progress == ProgressMode::off) return;
  if (is_in_place_) {
    log::open_by_cerr();
    screen.streams.push_back(std::make_unique<AboveLine>(std::cerr, line_));
    if (::isatty(STDOUT_FILENO) == 1)
      screen.streams.push_back(std::make_unique<AboveLine>(std::cout, line_));
  }
  try {
    const StopSignalsBlocked blocked;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    log::warning(
        system_message("start a thread", "that shows how the run goes", error.code().value()));
  }
}

LiveLineConsole::~LiveLineConsole() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  line_.show("");
}

void LiveLineConsole::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  auto said_at = began_at_;
  while (!ended_.wait_for(lock, stop, kInPlace, [] { return false; }) && !stop.stop_requested()) {
    const std::vector<LinePart> parts = next_parts();
    const auto now = std::chrono::steady_clock::now();
    if (is_in_place_) {
      line_.show(fit(parts, line_width(STDERR_FILENO)));
    } else if (now - said_at >= LiveLine::kPlainPause && !parts.empty()) {
      said_at = now;
      log::info(join(parts));
    }
  }
}

std::vector<LinePart> LiveLineConsole::next_parts() {
  if (page_.phase.load(std::memory_order_relaxed) == Phase::none) return {};
  RankProgress progress;
  read_progress(page_, progress);
  progress.has_page = true;  // it is our own
  progress.phase = page_.phase.load(std::memory_order_relaxed);
  const auto now = std::chrono::steady_clock::now();
  return live_line_.describe(now.time_since_epoch(), now - began_at_, {&progress, 1});
}

}  // namespace ddp::worker
