#include "launcher/os/gpu_query.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/files/descriptor.h"
#include "common/node/helper_process.h"
#include "common/node/nvml.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::milliseconds kEndWait(100);

/// Runs in the query's process.
void ask(int fd) noexcept {
  end_with_parent(GpuQuery::kLimit);
  const NvmlGpus found = ask_nvml();
  for (std::size_t i = 0; i < found.gpus.size(); ++i) {
    for (const int pid : found.uses[i].owners) {
      const GpuHolder holder{found.gpus[i].minor, pid};
      // A record is smaller than PIPE_BUF, so it arrives whole.
      if (::write(fd, &holder, sizeof holder) < 0) return;
    }
  }
}

}  // namespace

GpuQuery::GpuQuery(asio::io_context& io) : pipe_(io) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe2", "question about GPUs");
  const Descriptor write_end(ends[1]);
  pipe_.assign(ends[0]);
  // A separate process: NVML loads the driver's library and may hang in a broken driver, where no
  // thread of ours could be stopped.
  pid_ = fork_helper(ask, write_end.fd());
}

GpuQuery::~GpuQuery() {
  give_up();
}

void GpuQuery::give_up() {
  const pid_t pid = std::exchange(pid_, 0);
  signal_process(pid, SIGKILL);
  reap_within(pid, kEndWait);
}

asio::awaitable<std::vector<GpuHolder>> GpuQuery::answer() {
  asio::steady_timer timer(pipe_.get_executor(), kLimit);
  timer.async_wait([this](const boost::system::error_code& error) {
    if (!error) pipe_.cancel();
  });
  std::string bytes;
  std::array<char, 4096> buffer;
  while (true) {
    const auto [error, size] = co_await pipe_.async_read_some(asio::buffer(buffer), kResult);
    if (error) break;
    bytes.append(buffer.data(), size);
  }
  timer.cancel();
  std::vector<GpuHolder> holders(bytes.size() / sizeof(GpuHolder));
  if (!holders.empty())
    std::memcpy(holders.data(), bytes.data(), holders.size() * sizeof(GpuHolder));
  co_return holders;
}

}  // namespace ddp::launcher
