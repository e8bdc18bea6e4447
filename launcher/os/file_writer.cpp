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
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include "common/error.h"
#include "common/progress/terminal.h"
#include "launcher/os/all_signals_blocked.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval(20);  // between two checks for progress
constexpr std::size_t kBlockBytes = 64 << 10;           // small writes are joined up to this

bool is_regular(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/// Whether both descriptors are one terminal, pipe or file.
bool is_same(int left, int right) {
  struct stat a {};
  struct stat b {};
  return ::fstat(left, &a) == 0 && ::fstat(right, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

/// The part of `bytes` for one write().
std::string_view piece_of(std::string_view bytes, bool is_file) {
  if (is_file || bytes.size() <= PIPE_BUF) return bytes;
  // End at a line's end if possible: another process that writes to the same terminal may come
  // between two writes, but then not into a line.
  const std::size_t end = bytes.substr(0, PIPE_BUF).rfind('\n');
  return bytes.substr(0, end == std::string_view::npos ? PIPE_BUF : end + 1);
}

}  // namespace

/// One target. Its descriptor belongs to the lane's thread.
struct FileWriter::Output {
  std::filesystem::path path;
  // Where to open it; null once it is open. Owners: all that open files there, and this.
  std::shared_ptr<const OwnedDir> directory;
  int fd = -1;
  bool is_file = true;     // not a pipe or terminal: takes any size at once
  bool is_doomed = false;  // to be removed, not written
  std::atomic<bool> failed{false};
  bool is_free = false;  // closed: the next open() may use it
};

class FileWriter::Lane : public std::enable_shared_from_this<Lane> {
 public:
  /// `errors`: the lane for its own messages; null: this lane.
  explicit Lane(std::shared_ptr<Lane> errors) : errors_(std::move(errors)) {}

  /// Starts its thread, unless it runs already. Errors: SystemError.
  void start() {
    const std::lock_guard lock(mutex_);
    begin();
  }

  Output* add(std::filesystem::path path,
              int fd,
              bool is_file,
              std::shared_ptr<const OwnedDir> directory = nullptr);
  void push(Output* output, std::string bytes, bool closes = false);
  void push_footer(Output* output, std::string text);
  [[nodiscard]] std::size_t queued() const { return queued_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::chrono::nanoseconds stalled_for() const;
  /// Gives the lane up if it has taken nothing for kStallWait.
  static void give_up_if_stuck(const std::shared_ptr<Lane>& lane);
  static void finish(const std::shared_ptr<Lane>& lane);

 private:
  struct Block {
    Output* output = nullptr;
    std::string bytes;
    bool closes = false;
    std::optional<std::string> footer{};  // from now on
  };

  void run();
  void begin();
  void wake(std::unique_lock<std::mutex> lock);
  void take_front(std::unique_lock<std::mutex>& lock);
  void show(const Block& block);
  void put(Output& output, const std::string& bytes);
  int write_all(int fd, std::string_view bytes, bool is_file);
  void give_up(Output& output, const std::string& why);
  void print(const std::string& text);
  void note_move() {
    moved_at_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable ended_now_;
  std::deque<Block> blocks_;
  std::deque<Output> outputs_;  // a deque, as outputs must not move
  Output* current_ = nullptr;   // the output being written
  bool is_started_ = false;
  bool closing_ = false;
  bool is_given_up_ = false;  // given up: the thread's work no longer counts
  bool ended_ = false;
  std::atomic<std::size_t> queued_{0};
  std::atomic<bool> busy_{false};        // closing a file may take as long as writing it
  std::atomic<Clock::rep> moved_at_{0};  // when a byte was last taken, or first queued
  // These three are the thread's own.
  std::string footer_;
  bool is_drawn_ = false;           // the cursor is after the footer
  bool is_at_start_ = true;         // no other line is unfinished
  std::set<std::string> reported_;  // errors: a full disk is one line
  std::thread thread_;
  std::shared_ptr<Lane> errors_;
  std::shared_ptr<Lane> self_;  // set when left behind
};

/// Precondition: the lock is held.
void FileWriter::Lane::begin() {
  if (is_started_) return;
  const AllSignalsBlocked blocked;
  try {
    thread_ = std::thread([lane = shared_from_this()] { lane->run(); });
    is_started_ = true;
  } catch (const std::system_error& refused) {
    throw SystemError("cannot start a thread that writes output: " + refused.code().message() +
                          ". Raise the limit of processes (ulimit -u, pids.max).",
                      exit_code::kCannotExecute);
  }
}

FileWriter::Output* FileWriter::Lane::add(std::filesystem::path path,
                                          int fd,
                                          bool is_file,
                                          std::shared_ptr<const OwnedDir> directory) {
  const std::lock_guard lock(mutex_);
  auto place = std::ranges::find_if(outputs_, &Output::is_free);
  if (place == outputs_.end()) {
    outputs_.emplace_back();
    place = std::prev(outputs_.end());
  }
  place->path = std::move(path);
  place->directory = std::move(directory);
  place->fd = fd;
  place->is_file = is_file;
  place->is_doomed = false;
  place->failed = is_given_up_;
  place->is_free = false;
  return &*place;
}

void FileWriter::Lane::push(Output* output, std::string bytes, bool closes) {
  std::unique_lock lock(mutex_);
  if (is_given_up_) return;
  if (queued_.fetch_add(bytes.size(), std::memory_order_relaxed) == 0) {
    note_move();  // nothing could move before
  }
  const bool joins = !blocks_.empty() && blocks_.back().output == output &&
                     !blocks_.back().closes &&
                     blocks_.back().bytes.size() + bytes.size() <= kBlockBytes;
  if (joins) {
    blocks_.back().bytes += bytes;
    blocks_.back().closes = closes;
  } else {
    blocks_.push_back(Block{output, std::move(bytes), closes});
  }
  wake(std::move(lock));
}

/// Starts the thread at the first write. If the system refuses a thread, the caller writes itself
/// and may block, rather than lose the text.
void FileWriter::Lane::wake(std::unique_lock<std::mutex> lock) {
  try {
    begin();
  } catch (const SystemError&) {
    while (!blocks_.empty() && !busy_)  // one writer at a time, which also takes the rest
      take_front(lock);
    return;
  }
  lock.unlock();
  filled_.notify_one();
}

/// Queues a footer. It replaces one that still waits, so at most one waits behind the lines.
void FileWriter::Lane::push_footer(Output* output, std::string text) {
  std::unique_lock lock(mutex_);
  if (is_given_up_) return;
  if (text.empty() && !is_started_) return;  // there is none to erase
  const bool replaces = !blocks_.empty() && blocks_.back().footer && !blocks_.back().closes;
  if (!replaces) blocks_.push_back(Block{output, ""});
  blocks_.back().footer = std::move(text);
  wake(std::move(lock));
}

void FileWriter::Lane::run() {
  std::unique_lock lock(mutex_);
  while (!is_given_up_) {
    filled_.wait(lock, [this] { return !busy_ && (closing_ || !blocks_.empty()); });
    if (blocks_.empty()) break;
    take_front(lock);
  }
  ended_ = true;
  ended_now_.notify_all();
}

/// Writes the oldest block, without the lock.
void FileWriter::Lane::take_front(std::unique_lock<std::mutex>& lock) {
  const Block block = std::move(blocks_.front());
  blocks_.pop_front();
  current_ = block.output;
  busy_ = true;
  note_move();
  lock.unlock();
  show(block);
  if (block.closes && block.output->fd >= 0) ::close(block.output->fd);
  lock.lock();
  current_ = nullptr;
  busy_ = false;
  filled_.notify_one();  // wake the thread if another one has written
  if (block.closes) {
    block.output->fd = -1;
    block.output->is_free = true;
  }
  if (!is_given_up_) queued_.fetch_sub(block.bytes.size(), std::memory_order_relaxed);
}

/// Writes the lines of a block, and the footer below them.
void FileWriter::Lane::show(const Block& block) {
  const bool is_same_again = is_drawn_ && block.bytes.empty() && block.footer == footer_;
  if (is_same_again) return;
  if (block.footer) footer_ = *block.footer;
  if (!block.bytes.empty()) is_at_start_ = block.bytes.back() == '\n';
  if (footer_.empty() && !is_drawn_) return put(*block.output, block.bytes);
  std::string text(is_drawn_ ? kEraseLine : "");
  text += block.bytes;
  is_drawn_ = !footer_.empty() && is_at_start_;
  if (is_drawn_) text += first_columns(footer_, line_width(block.output->fd));
  put(*block.output, text);
}

void FileWriter::Lane::put(Output& output, const std::string& bytes) {
  if (output.failed) return;
  if (output.is_doomed) {
    output.directory->remove(output.path.filename());
    output.directory.reset();
    return;
  }
  if (output.fd < 0) {
    std::string why_not;
    constexpr int kAppend = O_WRONLY | O_CREAT | O_APPEND;
    output.fd = output.directory->open_file(output.path.filename(), kAppend, why_not);
    output.directory.reset();
    if (output.fd < 0) return give_up(output, why_not);
  }
  const int error = write_all(output.fd, bytes, output.is_file);
  if (error != 0) give_up(output, std::strerror(error));
}

/// Writes all bytes. Returns 0 or errno. Blocks: until the other side has taken them.
int FileWriter::Lane::write_all(int fd, std::string_view bytes, bool is_file) {
  while (!bytes.empty()) {
    const std::string_view piece = piece_of(bytes, is_file);
    const ssize_t written = ::write(fd, piece.data(), piece.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      note_move();
    } else if (errno == EAGAIN) {
      pollfd entry{fd, POLLOUT, 0};  // a console that another program set to non-blocking
      ::poll(&entry, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// Gives up one output. A full disk or a closed console never ends the job.
void FileWriter::Lane::give_up(Output& output, const std::string& why) {
  output.failed = true;
  if (output.fd == STDERR_FILENO || !reported_.insert(why).second) return;
  print("cannot write " + output.path.string() + ": " + why + "; the job goes on without it.");
}

void FileWriter::Lane::print(const std::string& text) {
  Lane& errors = errors_ ? *errors_ : *this;
  errors.push(&errors.outputs_.front(), "ddp-launch: " + text + "\n");
}

std::chrono::nanoseconds FileWriter::Lane::stalled_for() const {
  if (queued() == 0 && !busy_) return std::chrono::nanoseconds(0);
  const Clock::duration moved_at(moved_at_.load(std::memory_order_relaxed));
  return Clock::now().time_since_epoch() - moved_at;
}

void FileWriter::Lane::give_up_if_stuck(const std::shared_ptr<Lane>& lane) {
  if (lane->stalled_for() < kStallWait) return;
  std::string name;
  {
    const std::lock_guard lock(lane->mutex_);
    if (lane->current_ == nullptr || lane->is_given_up_) return;
    name = lane->current_->path.string();
    lane->is_given_up_ = true;
    lane->blocks_.clear();
    for (Output& output : lane->outputs_)
      output.failed = true;
    lane->queued_ = 0;
  }
  // A thread in a write() to a dead disk cannot be woken; only the end of the process ends it.
  // Until then the lane keeps itself and the thread's handle alive.
  lane->self_ = lane;
  if (!lane->errors_) return;
  lane->print(name + " has taken nothing for " +
              std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kStallWait).count()) +
              " s; what is left for it is dropped.");
}

void FileWriter::Lane::finish(const std::shared_ptr<Lane>& lane) {
  {
    const std::lock_guard lock(lane->mutex_);
    if (!lane->is_started_) return;
  }
  while (true) {
    {
      std::unique_lock lock(lane->mutex_);
      lane->closing_ = true;
      lane->filled_.notify_one();
      if (lane->is_given_up_) return;
      if (lane->ended_now_.wait_for(lock, kPollInterval, [&] { return lane->ended_; })) break;
    }
    give_up_if_stuck(lane);
  }
  lane->thread_.join();
  for (Output& output : lane->outputs_)
    if (output.fd > STDERR_FILENO) ::close(output.fd);
}

FileWriter::FileWriter() : errors_(std::make_shared<Lane>(nullptr)) {
  Output* const errors = errors_->add("stderr", STDERR_FILENO, is_regular(STDERR_FILENO));
  // Two threads on one terminal would mix up the order of its lines.
  const bool is_one = is_same(STDOUT_FILENO, STDERR_FILENO);
  output_ = is_one ? errors_ : std::make_shared<Lane>(errors_);
  Output* const output = output_->add("stdout", STDOUT_FILENO, is_regular(STDOUT_FILENO));
  files_ = std::make_shared<Lane>(errors_);
  places_ = {Place{output_.get(), output}, Place{errors_.get(), errors}};
}

FileWriter::~FileWriter() {
  bar_.clear();
  part_.clear();
  show_footer("");
  // The error lane comes last, as the others print through it.
  Lane::finish(files_);
  if (output_ != errors_) Lane::finish(output_);
  Lane::finish(errors_);
}

FileWriter::Target FileWriter::open(std::shared_ptr<const OwnedDir> directory,
                                    const std::string& name) {
  files_->start();
  std::filesystem::path path = directory->path() / name;
  Output* const output = files_->add(std::move(path), -1, true, std::move(directory));
  files_->push(output, "");  // makes the file, even if nothing is written
  const auto known = std::ranges::find(places_, output, &Place::output);
  if (known != places_.end()) return static_cast<Target>(known - places_.begin());
  places_.push_back(Place{files_.get(), output});
  return places_.size() - 1;
}

void FileWriter::remove(std::shared_ptr<const OwnedDir> directory, const std::string& name) {
  files_->start();
  std::filesystem::path path = directory->path() / name;
  Output* const output = files_->add(std::move(path), -1, true, std::move(directory));
  output->is_doomed = true;  // before it is pushed, while no other thread uses it
  files_->push(output, "", true);
}

void FileWriter::close(Target target) {
  const Place& place = places_.at(target);
  place.lane->push(place.output, "", true);
}

void FileWriter::write(Target target, std::string bytes) {
  if (bytes.empty()) return;
  const Place& place = places_.at(target);
  place.lane->push(place.output, std::move(bytes));
}

bool FileWriter::has_terminal() const {
  return can_rewrite(STDERR_FILENO);
}

void FileWriter::show_footer(std::string text) {
  footer_ = std::move(text);
  draw_footer();
}

void FileWriter::show_bar(std::string text) {
  bar_ = std::move(text);
  draw_footer();
}

void FileWriter::show_part(std::string text) {
  part_ = std::move(text);
  draw_footer();
}

void FileWriter::draw_footer() {
  if (!has_terminal()) return;
  const std::string& above = bar_.empty() ? footer_ : bar_;
  const Place& place = places_.at(kStderr);
  place.lane->push_footer(place.output, part_.empty() ? above : part_);
}

std::size_t FileWriter::footer_width() {
  return line_width(STDERR_FILENO);
}

std::size_t FileWriter::queued_bytes(Target target) const {
  return places_.at(target).lane->queued();
}

std::chrono::nanoseconds FileWriter::stalled_for(Target target) const {
  return places_.at(target).lane->stalled_for();
}

bool FileWriter::has_failed(Target target) const {
  return places_.at(target).output->failed;
}

void FileWriter::give_up_stuck_files() {
  Lane::give_up_if_stuck(files_);
}

}  // namespace ddp::launcher
