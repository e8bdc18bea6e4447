#include "launcher/os/file_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>

namespace ddp::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using Target = FileWriter::Target;

constexpr std::chrono::milliseconds kLook(20);  // between two looks at whether something moves

struct Output {
  std::filesystem::path path;
  int fd = -1;
  bool is_file = true;  // no console, pipe or terminal: takes any size at once
  bool failed = false;
};

struct Block {
  Target target = 0;
  std::string bytes;
};

bool is_regular(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/// What one write() takes of `bytes`.
std::string_view piece_of(std::string_view bytes, bool is_file) {
  if (is_file || bytes.size() <= PIPE_BUF) return bytes;
  const std::size_t end = bytes.substr(0, PIPE_BUF).rfind('\n');
  return bytes.substr(0, end == std::string_view::npos ? PIPE_BUF : end + 1);
}

}  // namespace

/// What the two threads share. Its owners are the FileWriter and the thread; once that is left
/// behind, itself.
struct FileWriter::Shared {
  std::mutex mutex;
  std::condition_variable filled;
  std::condition_variable ended_now;
  std::deque<Block> blocks;
  std::deque<Output> outputs;  // a deque: references stay good while others are added
  Target target = 0;           // of the block that is being written
  bool busy = false;
  bool closing = false;
  bool left = false;  // nobody hears what this thread does any more
  bool ended = false;
  std::atomic<std::size_t> queued{0};
  std::atomic<Clock::rep> moved_at{0};  // when a byte was last taken, or could begin to be
  std::thread thread;                   // when left behind; see leave_stuck()
  std::shared_ptr<Shared> self;

  void note_move() {
    moved_at.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }
  void run();
  void put(Output& output, const std::string& bytes);
  int write_all(int fd, std::string_view bytes, bool is_file);
  void give_up(Output& output, int error);
};

void FileWriter::Shared::run() {
  std::unique_lock lock(mutex);
  while (true) {
    filled.wait(lock, [this] { return closing || !blocks.empty(); });
    if (blocks.empty()) break;
    const Block block = std::move(blocks.front());
    blocks.pop_front();
    Output& output = outputs[block.target];
    target = block.target;
    busy = true;
    note_move();
    lock.unlock();
    put(output, block.bytes);
    queued.fetch_sub(block.bytes.size(), std::memory_order_relaxed);
    lock.lock();
    busy = false;
    if (left) break;
  }
  ended = true;
  ended_now.notify_all();
}

/// Fields of `output` change under the lock: leave_stuck() may copy them meanwhile.
void FileWriter::Shared::put(Output& output, const std::string& bytes) {
  if (output.failed) return;
  if (output.fd < 0) {
    const int fd = ::open(output.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
      give_up(output, errno);
      return;
    }
    const std::lock_guard lock(mutex);
    output.fd = fd;
  }
  const int error = write_all(output.fd, bytes, output.is_file);
  if (error != 0) give_up(output, error);
}

/// Writes all of it. Returns 0 or errno. Blocks: as long as the other side does.
int FileWriter::Shared::write_all(int fd, std::string_view bytes, bool is_file) {
  while (!bytes.empty()) {
    const std::string_view piece = piece_of(bytes, is_file);
    const ssize_t written = ::write(fd, piece.data(), piece.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      note_move();
    } else if (errno == EAGAIN) {
      pollfd entry{fd, POLLOUT, 0};  // a console that somebody set to non-blocking
      ::poll(&entry, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// A full disk or a closed console never ends the job.
void FileWriter::Shared::give_up(Output& output, int error) {
  bool was_left = false;
  {
    const std::lock_guard lock(mutex);
    output.failed = true;
    was_left = left;
  }
  if (was_left || output.fd == STDERR_FILENO) return;
  write_all(STDERR_FILENO,
            "ddp-launch: cannot write " + output.path.string() + ": " + std::strerror(error) +
                "; the job goes on without it.\n",
            false);
}

FileWriter::FileWriter() : shared_(std::make_shared<Shared>()) {
  shared_->outputs.push_back(Output{"stdout", STDOUT_FILENO, is_regular(STDOUT_FILENO), false});
  shared_->outputs.push_back(Output{"stderr", STDERR_FILENO, is_regular(STDERR_FILENO), false});
  start();
}

void FileWriter::start() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  thread_ = std::thread([shared = shared_] { shared->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FileWriter::~FileWriter() {
  while (true) {
    {
      std::unique_lock lock(shared_->mutex);
      shared_->closing = true;
      shared_->filled.notify_one();
      if (shared_->ended_now.wait_for(lock, kLook, [this] { return shared_->ended; })) break;
    }
    if (stalled_for() >= kStallWait) leave_stuck();
  }
  thread_.join();
  for (std::size_t i = kStderr + 1; i < shared_->outputs.size(); ++i) {
    const Output& output = shared_->outputs[i];
    // One that failed may still be in use by a thread that was left behind.
    if (output.fd >= 0 && !output.failed) ::close(output.fd);
  }
}

FileWriter::Target FileWriter::open(std::filesystem::path path) {
  const std::lock_guard lock(shared_->mutex);
  shared_->outputs.push_back(Output{std::move(path), -1, true, false});
  return shared_->outputs.size() - 1;
}

void FileWriter::write(Target target, std::string bytes) {
  if (bytes.empty()) return;
  if (shared_->queued.fetch_add(bytes.size(), std::memory_order_relaxed) == 0) {
    shared_->note_move();  // nothing could move before
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->blocks.push_back(Block{target, std::move(bytes)});
  }
  shared_->filled.notify_one();
}

std::size_t FileWriter::queued_bytes() const {
  return shared_->queued.load(std::memory_order_relaxed);
}

std::chrono::nanoseconds FileWriter::stalled_for() const {
  if (queued_bytes() == 0) return std::chrono::nanoseconds(0);
  const Clock::duration moved_at(shared_->moved_at.load(std::memory_order_relaxed));
  return Clock::now().time_since_epoch() - moved_at;
}

void FileWriter::leave_stuck() {
  const auto next = std::make_shared<Shared>();
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->busy) return;
    const Target stuck = shared_->target;
    const std::string name = shared_->outputs[stuck].path.string();
    next->outputs = shared_->outputs;
    for (Target i = 0; i < next->outputs.size(); ++i) {
      if (i == stuck || (stuck > kStderr && i > kStderr)) next->outputs[i].failed = true;
    }
    if (!next->outputs[kStderr].failed) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(kStallWait).count();
      next->blocks.push_back(Block{kStderr,
                                   "ddp-launch: " + name + " has taken nothing for " +
                                       std::to_string(seconds) +
                                       " s; what is left for it is dropped.\n"});
    }
    for (Block& block : shared_->blocks) {
      if (!next->outputs[block.target].failed) next->blocks.push_back(std::move(block));
    }
    shared_->blocks.clear();
    shared_->left = true;
    next->closing = shared_->closing;
    for (const Block& block : next->blocks)
      next->queued.fetch_add(block.bytes.size(), std::memory_order_relaxed);
    next->note_move();
  }
  // The thread cannot be woken from a write() to a dead disk, only the end of the process ends it.
  // Until then its state keeps itself and the thread's handle alive.
  shared_->thread = std::move(thread_);
  shared_->self = shared_;
  shared_ = next;
  start();
}

}  // namespace ddp::launcher
