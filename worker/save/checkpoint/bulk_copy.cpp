#include "worker/save/checkpoint/bulk_copy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ddp::worker {
namespace {

// Bytes that a thread takes at a time.
constexpr std::size_t kPart = 1 << 20;

#ifdef __SSE2__
constexpr std::size_t kLine = 64;  // bytes of the cache

void copy_past_cache(std::byte* to, const std::byte* from, std::size_t size) {
  // Such a store needs an aligned address; LibTorch's memory is aligned.
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = std::min(size, misaligned == 0 ? 0 : kLine - misaligned);
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + kLine <= size; i += kLine) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + i);
    auto* const target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // before another thread learns that the bytes are there
  std::memcpy(to + i, from + i, size - i);
}
#else
void copy_past_cache(std::byte* to, const std::byte* from, std::size_t size) {
  std::memcpy(to, from, size);
}
#endif

}  // namespace

void bulk_copy(const std::vector<BytesToCopy>& pieces) {
  std::vector<BytesToCopy> parts;
  for (const BytesToCopy& piece : pieces) {
    for (std::size_t first = 0; first < piece.from.size(); first += kPart) {
      const std::size_t size = std::min(kPart, piece.from.size() - first);
      parts.push_back({piece.from.subspan(first, size), piece.to + first});
    }
  }
  constexpr std::int64_t kAtLeast = 4;  // parts per thread: fewer are not worth waking it
  at::parallel_for(0,
                   static_cast<std::int64_t>(parts.size()),
                   kAtLeast,
                   [&parts](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const BytesToCopy& part = parts[static_cast<std::size_t>(i)];
                       copy_past_cache(part.to, part.from.data(), part.from.size());
                     }
                   });
}

}  // namespace ddp::worker
