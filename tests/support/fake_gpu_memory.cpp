#include "tests/support/fake_gpu_memory.h"

#include <ATen/core/TensorBody.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <utility>

#include "tests/support/fake_gpu_record.h"

namespace ddp::worker::late {
namespace {

constexpr int kPoison = 0xff;              // NaN in every floating type
constexpr std::size_t kQuarantine = 1024;  // blocks that were freed and stay poisoned

/// Freed memory that stays poisoned, so that who reads it too late reads NaN.
void keep_poisoned(std::shared_ptr<Block> block) {
  static std::mutex mutex;
  static std::deque<std::shared_ptr<Block>> blocks;
  block->poison();
  const std::lock_guard lock(mutex);
  blocks.push_back(std::move(block));
  if (blocks.size() > kQuarantine) blocks.pop_front();
}

void free_block(void* context) {
  const std::unique_ptr<BlockOwner> owner(static_cast<BlockOwner*>(context));
  const BlockOwner block = *owner;
  if (block->is_freed_early()) ++counters.early_frees;
  StreamQueue& queue = queue_of(block->stream());
  for (const c10::Stream& other : block->recorded())
    queue.wait_for(queue_of(other), queue_of(other).asked());
  queue.ask([block] { keep_poisoned(block); });
}

}  // namespace

Block::Block(std::size_t size, const c10::Stream& stream) : size_(size), stream_(stream) {
  if (size == 0) return;
  const int file = ::memfd_create("fake_gpu", MFD_CLOEXEC);
  TORCH_CHECK(file >= 0 && ::ftruncate(file, static_cast<off_t>(size)) == 0, "no memory file");
  closed_ = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0);
  open_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  TORCH_CHECK(closed_ != MAP_FAILED && open_ != MAP_FAILED, "mmap failed");
  poison();
}

Block::~Block() {
  if (size_ == 0) return;
  ::munmap(closed_, size_);
  ::munmap(open_, size_);
}

void Block::poison() {
  if (size_ > 0) std::memset(open_, kPoison, size_);
}

void Block::record(const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (stream != stream_) recorded_.insert_or_assign(stream.id(), stream);
}

std::vector<c10::Stream> Block::recorded() {
  const std::lock_guard lock(mutex_);
  std::vector<c10::Stream> streams;
  for (const auto& [id, stream] : recorded_)
    streams.push_back(stream);
  return streams;
}

void Block::note_operator(const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (stream != stream_)
    operators_.insert_or_assign(stream.id(), LateEvent{stream, queue_of(stream).asked()});
}

bool Block::is_freed_early() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(operators_, [this](const auto& one) {
    const LateEvent& last = one.second;
    const StreamQueue& queue = queue_of(last.stream);
    return !recorded_.contains(last.stream.id()) && !queue.has_host_waited(last.position) &&
           !queue_of(stream_).has_waited_for(queue, last.position);
  });
}

BlockOwner block_of(const at::Tensor& tensor) {
  return *static_cast<BlockOwner*>(tensor.storage().data_ptr().get_context());
}

at::Tensor host_view(const at::Tensor& tensor) {
  const c10::Storage storage(c10::Storage::use_byte_size_t{},
                             tensor.storage().nbytes(),
                             c10::DataPtr(block_of(tensor)->open(), at::kCPU),
                             c10::GetAllocator(at::kCPU),
                             /*resizable=*/true);
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return view;
}

c10::DataPtr LateAllocator::allocate(std::size_t size) {
  if (is_full && size > 0) C10_THROW_ERROR(OutOfMemoryError, "fake GPU out of memory.");
  const c10::Stream stream = current_stream(current_device);
  auto owner = std::make_unique<BlockOwner>(std::make_shared<Block>(size, stream));
  if (size > 0) ++counters.allocations;
  note_allocation((*owner)->id(), size);
  void* const data = (*owner)->closed();
  return {data, owner.release(), &free_block, stream.device()};
}

void LateAllocator::copy_data(void* /*to*/, const void* /*from*/, std::size_t /*size*/) const {
  TORCH_CHECK(false, "a storage of the fake GPU cannot be copied");
}

void LateAllocator::recordStream(const c10::DataPtr& memory, c10::Stream stream) {
  if (memory.get_context() != nullptr)
    (*static_cast<BlockOwner*>(memory.get_context()))->record(stream);
}

LateAllocator& allocator() {
  static auto* const one = new LateAllocator;
  return *one;
}

c10::DataPtr PinnedMemory::allocate(std::size_t size) {
  auto* const data = new std::byte[size > 0 ? size : 1];
  const std::lock_guard lock(mutex_);
  sizes_[data] = size;
  return {data, data, &give_back, at::kCPU};
}

void PinnedMemory::copy_data(void* to, const void* from, std::size_t size) const {
  std::memcpy(to, from, size);
}

bool PinnedMemory::has(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto after = sizes_.upper_bound(static_cast<const std::byte*>(data));
  if (after == sizes_.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return data < begin + size;
}

PinnedMemory& pinned_memory() {
  static auto* const one = new PinnedMemory;
  return *one;
}

void PinnedMemory::give_back(void* data) {
  PinnedMemory& all = pinned_memory();
  auto* const begin = static_cast<std::byte*>(data);
  {
    const std::lock_guard lock(all.mutex_);
    std::memset(begin, kPoison, all.sizes_[begin]);
    all.sizes_.erase(begin);
  }
  delete[] begin;
}

}  // namespace ddp::worker::late
