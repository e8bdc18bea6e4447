#include "worker/dist/shared_blocks.h"

#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace ddp::worker {
namespace {

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uint64_t in_pages(std::uint64_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

/// Trap: a file that grows beyond RLIMIT_FSIZE ends the process by a signal.
bool may_end_at(std::uint64_t end) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         end <= limit.rlim_cur;
}

/// What no machine has is refused here, as by at::empty(), and sums of offsets stay in range.
bool may_hold(std::int64_t count, std::size_t element_bytes) {
  const std::uint64_t memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page_bytes();
  return count > 0 && static_cast<std::uint64_t>(count) <= memory / element_bytes;
}

bool fallocate_whole(int file, int mode, std::uint64_t offset, std::size_t bytes) {
  int result = 0;
  do {
    result = ::fallocate(file, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool punch_hole(int file, std::uint64_t offset, std::size_t bytes) {
  return fallocate_whole(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
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

std::uint64_t SharedBlocks::first_end(int file, std::uint64_t bytes) {
  return punch_hole(file, 0, bytes) ? in_pages(bytes) : 0;
}

/// The file grows by its last page, so that ranks that do so at once cannot make it smaller. The
/// others get memory when they are used.
at::Tensor SharedBlocks::allocate(std::int64_t count,
                                  at::ScalarType type,
                                  std::atomic<std::uint64_t>& end) {
  const std::size_t element = c10::elementSize(type);
  if (end.load() == 0 || !may_hold(count, element)) return {};
  const std::uint64_t bytes = in_pages(static_cast<std::uint64_t>(count) * element);
  const std::uint64_t offset = end.fetch_add(bytes);
  const std::uint64_t last_page = offset + bytes - page_bytes();
  if (!may_end_at(offset + bytes) || !fallocate_whole(file_.fd(), 0, last_page, page_bytes()))
    return {};
  char* const address = map(file_.fd(), offset, bytes);
  if (address == nullptr) {
    punch_hole(file_.fd(), offset, bytes);
    return {};
  }
  const Block block{offset, bytes};
  {
    const std::lock_guard lock(mutex_);
    blocks_[address] = block;
    own_bytes_ += bytes;
  }
  const auto give_back = [self = shared_from_this(), block](void* memory) {
    self->free(static_cast<char*>(memory), block);
  };
  return at::from_blob(address, {count}, give_back, at::TensorOptions(type));
}

/// Trap: in a fork another thread may have held the mutex.
void SharedBlocks::free(char* address, Block block) {
  const bool is_fork = ::getpid() != owner_;
  if (!is_fork) {
    const std::lock_guard lock(mutex_);
    blocks_.erase(address);  // first, because the next block may get this address
    own_bytes_ -= block.bytes;
  }
  ::munmap(address, block.bytes);
  if (!is_fork) punch_hole(file_.fd(), block.offset, block.bytes);
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

char* SharedBlocks::view_of(std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t first = offset / page_bytes() * page_bytes();
  const std::size_t wanted = offset - first + bytes;
  View& view = views_[first];
  if (view.bytes < wanted) {
    char* const address = map(file_.fd(), first, wanted);
    if (address == nullptr) return nullptr;
    if (view.address != nullptr) ::munmap(view.address, view.bytes);
    viewed_bytes_ += wanted - view.bytes;
    view = {address, wanted};
  }
  return view.address + (offset - first);
}

/// Old views are unmapped when there are many, or no room for new ones. Peers have about as many
/// blocks as this rank.
std::vector<char*> SharedBlocks::view(const std::vector<std::uint64_t>& offsets,
                                      std::size_t bytes) {
  if (viewed_bytes_ > kMostViewed * own_bytes() * offsets.size()) unmap_views();
  for (const bool is_last : {false, true}) {
    std::vector<char*> views;
    for (const std::uint64_t offset : offsets)
      views.push_back(view_of(offset, bytes));
    if (std::ranges::find(views, nullptr) == views.end()) return views;
    if (!is_last) unmap_views();
  }
  return {};
}

std::size_t SharedBlocks::own_bytes() const {
  const std::lock_guard lock(mutex_);
  return own_bytes_;
}

void SharedBlocks::unmap_views() {
  for (const auto& [offset, view] : views_)
    ::munmap(view.address, view.bytes);
  views_.clear();
  viewed_bytes_ = 0;
}

}  // namespace ddp::worker
