#include "launcher/os/file_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace ddp::launcher {
namespace {

/// Writes all of it. Returns 0 or errno. Blocks: as long as the other side does.
int write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd, data, size);
    if (written >= 0) {
      data += written;
      size -= static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd entry{fd, POLLOUT, 0};  // a console that somebody set to non-blocking
      ::poll(&entry, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

FileWriter::FileWriter() {
  outputs_.push_back(Output{"stdout", STDOUT_FILENO, false});
  outputs_.push_back(Output{"stderr", STDERR_FILENO, false});
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FileWriter::~FileWriter() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  filled_.notify_one();
  thread_.join();
  for (std::size_t i = kStderr + 1; i < outputs_.size(); ++i) {
    if (outputs_[i].fd >= 0) ::close(outputs_[i].fd);
  }
}

FileWriter::Target FileWriter::open(std::filesystem::path path) {
  const std::lock_guard lock(mutex_);
  outputs_.push_back(Output{std::move(path), -1, false});
  return outputs_.size() - 1;
}

void FileWriter::write(Target target, std::string bytes) {
  if (bytes.empty()) return;
  queued_.fetch_add(bytes.size(), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(Block{target, std::move(bytes)});
  }
  filled_.notify_one();
}

void FileWriter::drain() {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [this] { return blocks_.empty() && !busy_; });
}

void FileWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    filled_.wait(lock, [this] { return closing_ || !blocks_.empty(); });
    if (blocks_.empty()) return;
    const Block block = std::move(blocks_.front());
    blocks_.pop_front();
    busy_ = true;
    lock.unlock();
    put(block.target, block.bytes);
    queued_.fetch_sub(block.bytes.size(), std::memory_order_relaxed);
    lock.lock();
    busy_ = false;
    if (blocks_.empty()) emptied_.notify_all();
  }
}

void FileWriter::put(Target target, const std::string& bytes) {
  Output* output = nullptr;
  {
    const std::lock_guard lock(mutex_);
    output = &outputs_[target];
  }
  if (output->failed) return;
  if (output->fd < 0) {
    output->fd = ::open(output->path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (output->fd < 0) {
      give_up(target, *output, errno);
      return;
    }
  }
  const int error = write_all(output->fd, bytes.data(), bytes.size());
  if (error != 0) give_up(target, *output, error);
}

/// A full disk or a closed console never ends the job.
void FileWriter::give_up(Target target, Output& output, int error) {
  output.failed = true;
  if (target == kStderr) return;
  const std::string text = "ddp-launch: cannot write " + output.path.string() + ": " +
                           std::strerror(error) + "; the job goes on without it.\n";
  write_all(STDERR_FILENO, text.data(), text.size());
}

}  // namespace ddp::launcher
