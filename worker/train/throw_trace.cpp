#include "worker/train/throw_trace.h"

#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <typeinfo>

namespace ddp::worker {
namespace {

using Throw = void (*)(void*, std::type_info*, void (*)(void*));

// An error of a thread of the loader may be older than others of it.
constexpr std::size_t kThrows = 256;
constexpr std::size_t kDepth = 32;  // of the innermost calls: those of the program are among them

/// Many threads write and one reads what is long written; should a writer be at it all the same,
/// the number tells: it is written first and last, and each part in between in this order
/// (release), and read so (acquire).
struct Entry {
  std::atomic<std::uint64_t> number{0};  // of the throw; 0: none, or it is being written
  std::atomic<const void*> object{nullptr};
  std::atomic<const std::type_info*> type{nullptr};
  std::array<std::atomic<const void*>, kDepth> addresses{};
};

constinit std::array<Entry, kThrows> entries;
constinit std::atomic<std::uint64_t> throws{0};
constinit std::atomic<Throw> next_throw{nullptr};

/// On the way out of __cxa_throw: its own frames come first.
struct Walk {
  Entry& entry;
  const void* caller;
  bool is_outside = false;
  std::size_t depth = 0;
};

_Unwind_Reason_Code note(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  // An integer by its interface.
  const auto* const address = reinterpret_cast<const void*>(_Unwind_GetIP(context));
  walk.is_outside = walk.is_outside || address == walk.caller;
  if (walk.is_outside) walk.entry.addresses[walk.depth++].store(address, std::memory_order_release);
  return walk.depth == kDepth ? _URC_END_OF_STACK : _URC_NO_REASON;
}

void keep(const void* object, const std::type_info* type, const void* caller) {
  const std::uint64_t number = 1 + throws.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = entries[number % kThrows];
  entry.number.store(0, std::memory_order_relaxed);
  entry.object.store(object, std::memory_order_release);
  entry.type.store(type, std::memory_order_release);
  Walk walk{entry, caller};
  (void)_Unwind_Backtrace(note, &walk);
  if (walk.depth < kDepth) entry.addresses[walk.depth].store(nullptr, std::memory_order_release);
  entry.number.store(number, std::memory_order_release);
}

/// The C++ library's, or a sanitizer's before it.
Throw find_next_throw() {
  Throw next = next_throw.load(std::memory_order_relaxed);
  if (next != nullptr) return next;
  next = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  next_throw.store(next, std::memory_order_relaxed);
  return next;
}

// Before other threads are there: dlsym takes a lock.
[[maybe_unused]] const Throw found_early = find_next_throw();

}  // namespace

std::vector<const void*> throw_trace(const std::exception& error) {
  const void* const object = dynamic_cast<const void*>(&error);  // the whole of it, as thrown
  std::uint64_t newest = 0;
  std::vector<const void*> found;
  for (const Entry& entry : entries) {
    const std::uint64_t number = entry.number.load(std::memory_order_acquire);
    if (number <= newest || entry.object.load(std::memory_order_acquire) != object) continue;
    const std::type_info* const type = entry.type.load(std::memory_order_acquire);
    std::vector<const void*> addresses;
    for (const auto& kept : entry.addresses) {
      const void* const address = kept.load(std::memory_order_acquire);
      if (address == nullptr) break;
      addresses.push_back(address);
    }
    if (entry.number.load(std::memory_order_relaxed) != number) continue;
    newest = number;
    // An older one may have lain at the same address.
    found = type != nullptr && *type == typeid(error) ? addresses : std::vector<const void*>();
  }
  return found;
}

}  // namespace ddp::worker

// Weak: a program that links the C++ library statically has that one's.
extern "C" [[gnu::weak, noreturn]] void __cxa_throw(void* object,
                                                    std::type_info* type,
                                                    void (*destroy)(void*)) {
  ddp::worker::keep(object, type, __builtin_return_address(0));
  ddp::worker::find_next_throw()(object, type, destroy);
  __builtin_unreachable();
}
