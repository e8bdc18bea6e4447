#include "launcher/os/stop_signals.h"

#include <csignal>

namespace ddp::launcher {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(asio::io_context& io, const std::vector<int>& signals, Callback callback)
    : set_(io), wanted_(signals), callback_(std::move(callback)) {
  wanted_.insert(wanted_.end(), {SIGUSR1, SIGUSR2});  // twice does no harm
  // Ignored by nohup, or by a shell that starts a job in the background: keep it ignored.
  std::erase_if(wanted_, is_ignored);
  for (const int signal : wanted_)
    set_.add(signal);
  set_.add(SIGCHLD);
  listen();
}

void StopSignals::close() {
  closed_ = true;
  boost::system::error_code ignored;
  set_.clear(ignored);
  // Asio restores the default of a removed signal, which would end us while we report.
  for (const int signal : wanted_)
    ::signal(signal, SIG_IGN);
  set_.cancel(ignored);
}

void StopSignals::listen() {
  set_.async_wait([this](const boost::system::error_code& error, int signal) {
    // A signal that came just before close() is delivered after it, without an error.
    if (error || closed_) return;
    callback_(signal);
    listen();
  });
}

}  // namespace ddp::launcher
