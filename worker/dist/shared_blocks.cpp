#include "worker/dist/shared_blocks.h"

#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

namespace ddp::worker {
namespace {

/// A job has one for each bucket and rank. A script that makes tensors all the time has many.
constexpr std::size_t kMostViews = 1024;

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Trap: a file that grows beyond RLIMIT_FSIZE ends the process by a signal.
bool may_end_at(std::uint64_t end) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         end <= limit.rlim_cur;
}

bool fallocate_whole(int file, int mode, std::uint64_t offset, std::size_t bytes) {
  int result = 0;
  do {
    result = ::fallocate(file, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

char* map(int file, std::uint64_t offset, std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

}  // namespace

SharedBlocks::~SharedBlocks() {
  unmap_views();
}

std::uint64_t SharedBlocks::in_pages(std::uint64_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

/// The file grows by its last page, so that ranks that do so at once cannot make it smaller. The
/// others get memory when they are used, as with any tensor.
at::Tensor SharedBlocks::allocate(std::int64_t count,
                                  at::ScalarType type,
                                  std::atomic<std::uint64_t>& end) {
  const std::uint64_t bytes = in_pages(static_cast<std::uint64_t>(count) * c10::elementSize(type));
  if (bytes == 0) return {};
  const std::uint64_t offset = end.fetch_add(bytes);
  const std::uint64_t last_page = offset + bytes - page_bytes();
  if (!may_end_at(offset + bytes) || !fallocate_whole(file_.fd(), 0, last_page, page_bytes()))
    return {};
  char* const address = map(file_.fd(), offset, bytes);
  if (address == nullptr) {
    fallocate_whole(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    blocks_[address] = {offset, bytes};
  }
  const auto give_back = [self = shared_from_this()](void* block) {
    self->free(static_cast<char*>(block));
  };
  return at::from_blob(address, {count}, give_back, at::TensorOptions(type));
}

void SharedBlocks::free(char* address) {
  Block block;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    block = found->second;
    blocks_.erase(found);
  }
  ::munmap(address, block.bytes);
  if (::getpid() != owner_) return;
  fallocate_whole(
      file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, block.offset, block.bytes);
}

std::optional<std::uint64_t> SharedBlocks::offset_of(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const char*>(data);
  const std::lock_guard lock(mutex_);
  const auto after = blocks_.upper_bound(begin);
  if (after == blocks_.begin()) return {};
  const auto& [address, block] = *std::prev(after);
  const auto inside = static_cast<std::uint64_t>(begin - address);
  if (inside + bytes > block.bytes) return {};
  return block.offset + inside;
}

char* SharedBlocks::view(std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t first = offset / page_bytes() * page_bytes();
  const std::size_t wanted = offset - first + bytes;
  View& view = views_[first];
  if (view.bytes < wanted) {
    char* const address = map(file_.fd(), first, wanted);
    if (address == nullptr) return nullptr;
    if (view.address != nullptr) ::munmap(view.address, view.bytes);
    view = {address, wanted};
  }
  return view.address + (offset - first);
}

void SharedBlocks::forget_old_views() {
  if (views_.size() > kMostViews) unmap_views();
}

void SharedBlocks::unmap_views() {
  for (const auto& [offset, view] : views_)
    ::munmap(view.address, view.bytes);
  views_.clear();
}

}  // namespace ddp::worker
