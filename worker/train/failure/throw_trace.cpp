#include "worker/train/failure/throw_trace.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <typeinfo>
#include <utility>

namespace ddp::worker {
namespace {

using Init = decltype(&abi::__cxa_init_primary_exception);
using Throw = decltype(&abi::__cxa_throw);
using ThrowWatcher = void (*)(const void*, const std::type_info&) noexcept;

// Many, because an error that a loader thread stores is reported after other throws.
constexpr std::size_t kThrows = 256;
constexpr std::size_t kDepth = 32;  // innermost frames; the user's are among them
constexpr std::uint64_t kBeingWritten = std::numeric_limits<std::uint64_t>::max();

/// One recorded throw. Each entry has one writer at a time; a reader looks for old entries. If a
/// writer changes an entry while it is read, `number` shows it (a seqlock): it is written first and
/// last, and all in between with release, and read with acquire.
struct Entry {
  std::atomic<std::uint64_t> number{0};  // of the throw; 0: none
  std::atomic<const void*> object{nullptr};
  std::atomic<const std::type_info*> type{nullptr};
  std::array<std::atomic<const void*>, kDepth> addresses{};
};

constinit std::array<Entry, kThrows> entries;
constinit std::atomic<std::uint64_t> throws{0};
constinit std::atomic<Init> next_init{nullptr};
constinit std::atomic<Throw> next_throw{nullptr};
constinit std::atomic<ThrowWatcher> watcher{nullptr};
/// This thread is in a `throw` that was recorded.
constinit thread_local bool is_throwing = false;

/// State of a walk up the stack. Skips the frames of this file, which come first.
struct Walk {
  Entry& entry;
  const void* caller;
  bool is_outside = false;
  std::size_t depth = 0;
};

_Unwind_Reason_Code note(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  // _Unwind_GetIP() returns an integer.
  const auto* const address = reinterpret_cast<const void*>(_Unwind_GetIP(context));
  walk.is_outside = walk.is_outside || address == walk.caller;
  if (walk.is_outside) walk.entry.addresses[walk.depth++].store(address, std::memory_order_release);
  return walk.depth == kDepth ? _URC_END_OF_STACK : _URC_NO_REASON;
}

void keep(const void* object, const std::type_info* type, const void* caller) {
  const std::uint64_t number = 1 + throws.fetch_add(1, std::memory_order_relaxed);
  Entry& entry = entries[number % kThrows];
  // Another thread is still writing this entry: it was suspended while hundreds were thrown.
  if (entry.number.exchange(kBeingWritten, std::memory_order_relaxed) == kBeingWritten) return;
  entry.object.store(object, std::memory_order_release);
  entry.type.store(type, std::memory_order_release);
  Walk walk{entry, caller};
  (void)_Unwind_Backtrace(note, &walk);
  if (walk.depth < kDepth) entry.addresses[walk.depth].store(nullptr, std::memory_order_release);
  entry.number.store(number, std::memory_order_release);
}

/// The next definition of the function: the C++ library's, or a sanitizer's.
template <typename Function>
Function find_next(std::atomic<Function>& known, const char* name) {
  Function next = known.load(std::memory_order_relaxed);
  if (next != nullptr) return next;
  next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
  known.store(next, std::memory_order_relaxed);
  return next;
}

Init find_next_init() {
  return find_next(next_init, "__cxa_init_primary_exception");
}

Throw find_next_throw() {
  return find_next(next_throw, "__cxa_throw");
}

// At start-up, before there are other threads, because dlsym takes a lock.
[[maybe_unused]] const Init found_init_early = find_next_init();
[[maybe_unused]] const Throw found_throw_early = find_next_throw();

void note_throw(const void* object, const std::type_info* type, const void* caller) {
  keep(object, type, caller);
  if (const ThrowWatcher watch = watcher.load(std::memory_order_relaxed)) watch(object, *type);
  is_throwing = true;
}

}  // namespace

std::vector<const void*> throw_trace(const void* object, const std::type_info& type) {
  std::uint64_t newest = 0;  // an older exception may have had the same address
  const std::type_info* type_of_newest = nullptr;
  std::vector<const void*> found;
  for (const Entry& entry : entries) {
    const std::uint64_t number = entry.number.load(std::memory_order_acquire);
    if (number <= newest || number == kBeingWritten ||
        entry.object.load(std::memory_order_acquire) != object)
      continue;
    const std::type_info* const type_of_it = entry.type.load(std::memory_order_acquire);
    std::vector<const void*> addresses;
    for (const auto& kept : entry.addresses) {
      const void* const address = kept.load(std::memory_order_acquire);
      if (address == nullptr) break;
      addresses.push_back(address);
    }
    if (entry.number.load(std::memory_order_relaxed) != number) continue;
    newest = number;
    type_of_newest = type_of_it;
    found = addresses;
  }
  // An exception that was not recorded (of another copy of the C++ library) may have the address of
  // an old one.
  if (type_of_newest == nullptr || *type_of_newest != type) found.clear();
  return found;
}

void watch_throws(void (*watch)(const void* object, const std::type_info& type) noexcept) {
  watcher = watch;
}

}  // namespace ddp::worker

// Weak: in a program that links the C++ library statically, that library's functions are used.
extern "C" [[gnu::weak]] void abi::__cxa_throw(void* object,
                                               std::type_info* type,
                                               void (*destroy)(void*)) {
  ddp::worker::note_throw(object, type, __builtin_return_address(0));
  ddp::worker::find_next_throw()(object, type, destroy);
  __builtin_unreachable();
}

extern "C" [[gnu::weak]] abi::__cxa_refcounted_exception* abi::__cxa_init_primary_exception(
    void* object, std::type_info* type, void (*destroy)(void*)) noexcept {
  if (!std::exchange(ddp::worker::is_throwing, false))
    ddp::worker::keep(object, type, __builtin_return_address(0));
  return ddp::worker::find_next_init()(object, type, destroy);
}
