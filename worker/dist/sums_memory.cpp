#include "worker/dist/sums_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include "common/robust_mutex.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp::worker {
namespace {

/// What ranks exchange before they share memory.
struct MemoryOffer {
  pid_t pid = ::getpid();
  int file = -1;  // rank 0's descriptor of the memory; -1: none
  std::uint64_t nonce = random_nonce();

  [[nodiscard]] std::string text() const {
    return std::to_string(pid) + " " + std::to_string(file) + " " + std::to_string(nonce);
  }
  /// The inverse of text().
  static MemoryOffer parse(const std::string& text) {
    const std::vector<std::string_view> words = split(text, ' ');
    return {parse_whole<pid_t>(words.at(0)).value_or(-1),
            parse_whole<int>(words.at(1)).value_or(-1),
            parse_whole<std::uint64_t>(words.at(2)).value_or(0)};
  }
  [[nodiscard]] std::string path() const {
    return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  }

 private:
  static std::uint64_t random_nonce() {
    std::random_device random;
    return (static_cast<std::uint64_t>(random()) << 32) | random();
  }
};

}  // namespace

/// Without FUTEX_PRIVATE_FLAG, because processes share the futex.
void futex_wait(SharedNumber& number, std::uint32_t seen, std::chrono::milliseconds limit) {
  const timespec time{0, std::chrono::nanoseconds(limit).count()};
  ::syscall(SYS_futex, &number, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake(SharedNumber& number) {
  ::syscall(SYS_futex, &number, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool SumsMemory::RankState::has_ended() {
  const int result = ::pthread_mutex_trylock(&alive_lock);
  if (result == 0 || result == EOWNERDEAD) ::pthread_mutex_unlock(&alive_lock);
  return result != EBUSY;
}

SumsMemory::Opened SumsMemory::open(int rank, const std::vector<int>& names, const Gather& gather) {
  const auto world_size = static_cast<int>(names.size());
  MemoryOffer own;
  Opened opened;
  const auto fail = [&](const std::string& what) {
    opened.problem = "rank " + std::to_string(names.at(static_cast<std::size_t>(rank))) +
                     " cannot share memory: " + what + ": " + std::strerror(errno);
  };
  if (rank == 0) {
    Descriptor file(::memfd_create("ddp-sums", MFD_CLOEXEC));
    const int number = file.fd();
    if (file) opened.memory = map(std::move(file), world_size, /*is_new=*/true);
    if (!opened.memory) fail("memfd_create");
    if (opened.memory) opened.memory->header().nonce = own.nonce;
    own.file = opened.memory ? number : -1;
  }
  std::vector<MemoryOffer> offers;
  for (const std::string& text : gather(own.text()))
    offers.push_back(MemoryOffer::parse(text));
  if (rank != 0 && offers[0].file >= 0) {
    Descriptor file(::open(offers[0].path().c_str(), O_RDWR | O_CLOEXEC));
    if (file) opened.memory = map(std::move(file), world_size, /*is_new=*/false);
    if (opened.memory && opened.memory->header().nonce != offers[0].nonce) opened.memory.reset();
    if (!opened.memory) fail("that of rank 0, " + offers[0].path());
  }
  return opened;
}

/// The file gets its size first if `is_new`. Null on failure.
std::unique_ptr<SumsMemory> SumsMemory::map(Descriptor file, int world_size, bool is_new) {
  const std::size_t size = bytes_for(world_size);
  struct stat status {};
  if (is_new && ::ftruncate(file.fd(), static_cast<off_t>(size)) != 0) return nullptr;
  if (::fstat(file.fd(), &status) != 0 || static_cast<std::size_t>(status.st_size) != size)
    return nullptr;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<SumsMemory> mapped(new SumsMemory(memory, world_size, std::move(file)));
  if (!is_new) return mapped;
  mapped->header().blocks_end = SharedBlocks::first_end(mapped->blocks_->file(), size);
  for (int rank = 0; rank < world_size; ++rank)
    make_robust_mutex(mapped->rank_state(rank).alive_lock);
  return mapped;
}

SumsMemory::~SumsMemory() {
  ::munmap(memory_, bytes_for(world_size_));
}

std::size_t SumsMemory::chunk_bytes(int world_size) {
  return std::min(
      kMaxChunkBytes,
      kMaxRowBytes / static_cast<std::size_t>(world_size) / kCacheLinePair * kCacheLinePair);
}

SumsMemory::RankState& SumsMemory::rank_state(int rank) const {
  return reinterpret_cast<RankState*>(static_cast<char*>(memory_) + sizeof(Header))[rank];
}

char* SumsMemory::chunk(std::uint32_t slot, int rank) const {
  const auto row = static_cast<std::size_t>(slot) * static_cast<std::size_t>(world_size_) +
                   static_cast<std::size_t>(rank);
  return static_cast<char*>(memory_) + head_bytes(world_size_) + row * chunk_bytes(world_size_);
}

at::Tensor SumsMemory::allocate(std::int64_t count, at::ScalarType type) const {
  return blocks_->allocate(count, type, header().blocks_end);
}

std::size_t SumsMemory::head_bytes(int world_size) {
  constexpr std::size_t kPage = 4096;
  const std::size_t bytes =
      sizeof(Header) + static_cast<std::size_t>(world_size) * sizeof(RankState);
  return (bytes + kPage - 1) / kPage * kPage;
}

std::size_t SumsMemory::bytes_for(int world_size) {
  return head_bytes(world_size) +
         kSlots * static_cast<std::size_t>(world_size) * chunk_bytes(world_size);
}

}  // namespace ddp::worker
