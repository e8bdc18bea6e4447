#include "worker/dist/lost_peers.h"

#include <poll.h>

#include <exception>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

namespace ddp::worker {
namespace {

using Reports = std::optional<std::vector<FailureReport>>;
using Bytes = std::vector<std::uint8_t>;

constexpr const char* kKey = "lost-peers";

// All ranks append to one key: with 1,000 ranks, each reads one value of 1,000 lines, not 1,000
// keys.
Reports exchange(c10d::Store& store, const std::string& line, std::chrono::milliseconds wait) {
  try {
    store.append(kKey, Bytes(line.begin(), line.end()));
    ::poll(nullptr, 0, static_cast<int>(wait.count()));
    const Bytes bytes = store.get(kKey);
    return read_reports(std::string(bytes.begin(), bytes.end()));
  } catch (const std::exception&) {
    return {};  // the rank that served the store has ended
  }
}

}  // namespace

Reports exchange_reports(const c10::intrusive_ptr<c10d::Store>& store,
                         const FailureReport& own,
                         std::chrono::milliseconds wait) {
  // Trap: LibTorch's client waits for the store without a limit, so another thread asks. If no
  // answer comes, that thread is leaked: the process is about to end anyway.
  auto task = std::make_shared<std::packaged_task<Reports()>>(
      [store, line = to_line(own), wait] { return exchange(*store, line, wait); });
  std::future<Reports> answer = task->get_future();
  std::unique_ptr<std::thread> thread;
  try {
    thread = std::make_unique<std::thread>([task] { (*task)(); });
  } catch (const std::system_error&) {
    return {};  // no thread is available: the failure is reported without the others
  }
  if (answer.wait_for(kLongest) != std::future_status::ready) {
    (void)thread.release();
    return {};
  }
  thread->join();
  return answer.get();
}

}  // namespace ddp::worker
