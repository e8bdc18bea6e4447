#include "worker/save/records/metrics_command.h"

#include <string_view>
#include <utility>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/units.h"

namespace ddp::worker {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};

}  // namespace

MetricsCommand::MetricsCommand(std::string name,
                               const std::vector<std::string>& command,
                               std::chrono::milliseconds patience)
    : name_(std::move(name)), patience_(patience) {
  try {
    process_ = std::make_unique<Process>(command);
  } catch (const SystemError& error) {
    give_up(error.what());
  }
}

void MetricsCommand::feed(std::string line) {
  if (is_over_) return;
  if (queued_ + line.size() > kMaxQueued) {
    if (left_out_++ == 0) log::warning(name_ + " is too slow: lines are left out");
    return;
  }
  queued_ += line.size();
  try {
    thread_.start([this, text = std::move(line)] {
      write(text);
      queued_ -= text.size();
    });
  } catch (const SystemError& error) {
    give_up(error.what());
  }
}

void MetricsCommand::close(std::string line) {
  if (process_ == nullptr) return;
  deadline_ = Process::Clock::now() + patience_;
  is_closing_ = true;
  if (is_over_) return;
  try {
    thread_.start([this, text = std::move(line)] {
      write(text);
      process_->close_input();
    });
  } catch (const SystemError& error) {
    give_up(error.what());
  }
}

void MetricsCommand::wait() {
  if (process_ == nullptr) return;
  thread_.wait();
  process_->close_input();
  const std::optional<std::string> ending = process_->wait_until(deadline_);
  if (left_out_ > 0)
    log::warning(name_ + " did not get " + std::to_string(left_out_) +
                 " lines; all are in metrics.jsonl");
  if (!ending)
    log::warning(name_ + " still runs " + format_duration(patience_) +
                 " after its last line: it is killed");
  else if (!ending->empty() && !is_over_)
    log::warning(name_ + ": " + *ending);
  process_.reset();
}

// Runs on the thread.
void MetricsCommand::write(const std::string& line) {
  std::string_view rest = line;
  while (!rest.empty() && !is_over_) {
    const std::optional<std::size_t> taken = process_->feed(rest);
    if (!taken) {
      const std::optional<std::string> ending =
          process_->wait_until(Process::Clock::now() + kLookEvery);
      if (!ending)
        give_up("it reads no more");
      else
        give_up(ending->empty() ? "it ended before its last line" : *ending);
      return;
    }
    rest.remove_prefix(*taken);
    if (rest.empty()) return;
    if (is_closing_ && Process::Clock::now() > deadline_) return;
    process_->wait_for_room(kLookEvery);
  }
}

void MetricsCommand::give_up(const std::string& why) {
  is_over_ = true;
  log::warning(name_ + ": " + why + ". Training goes on without it.");
}

}  // namespace ddp::worker
