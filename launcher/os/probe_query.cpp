#include "launcher/os/probe_query.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/node/probe_process.h"
#include "common/node/process_signals.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kEndWait(100);

}  // namespace

ProbeQuery::ProbeQuery(asio::io_context& io,
                       std::vector<std::string> question,
                       std::chrono::seconds limit)
    : limit_(limit), pipe_(io) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "question to the probe");
  const Descriptor write_end(ends[1]);
  pipe_.assign(ends[0]);
  pid_ = fork_helper(probe_body(std::move(question), limit), write_end.fd());
}

ProbeQuery::~ProbeQuery() {
  give_up();
}

void ProbeQuery::give_up() {
  const pid_t pid = std::exchange(pid_, 0);
  signal_process(pid, SIGKILL);
  reap_within(pid, kEndWait);
}

asio::awaitable<HelperAnswer> ProbeQuery::answer() {
  asio::steady_timer timer(pipe_.get_executor(), limit_);
  timer.async_wait([this](const boost::system::error_code& error) {
    if (!error) pipe_.cancel();
  });
  HelperAnswer answer;
  std::array<char, 4096> buffer;
  while (true) {
    const auto [error, size] = co_await pipe_.async_read_some(asio::buffer(buffer), kResult);
    answer.is_whole = error == asio::error::eof;
    if (error) break;
    answer.text.append(buffer.data(), size);
  }
  timer.cancel();
  co_return answer;
}

}  // namespace ddp::launcher
