#include "launcher/run/watch_status.h"

#include <unistd.h>

#include <algorithm>

#include "common/program/streams.h"
#include "common/progress/terminal.h"
#include "launcher/os/asio.h"
#include "launcher/plan/status/screen_block.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kWatchPause(1);

std::string fit_terminal(const std::string& text) {
  const std::optional<TerminalSize> size = terminal_size(STDOUT_FILENO);
  if (!size || size->rows == 0) return fit_block(text, 80, 24);
  return fit_block(
      text, static_cast<std::size_t>(size->columns), static_cast<std::size_t>(size->rows));
}

}  // namespace

void watch_status(std::vector<RunningJob> jobs,
                  const std::string& name,
                  const Environment& environment) {
  asio::io_context io(1);
  asio::steady_timer timer(io);
  const bool is_terminal = can_rewrite(STDOUT_FILENO);
  const std::string meant = name.empty() ? "" : jobs.front().status.run_id;
  std::size_t lines = 0;
  while (!jobs.empty()) {
    std::string text;
    for (const RunningJob& job : jobs)
      text += describe(job.status);
    if (is_terminal) {
      text = fit_terminal(text);
      print(redraw(text, lines));
      lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    } else {
      print(text + "\n");
    }
    timer.expires_after(kWatchPause);
    timer.wait();
    jobs = find_jobs(environment, false);
    std::erase_if(
        jobs, [&](const RunningJob& job) { return !meant.empty() && job.status.run_id != meant; });
  }
  print("ended\n");
}

}  // namespace ddp::launcher
