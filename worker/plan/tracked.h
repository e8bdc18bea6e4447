// A value that is handed to code of a program's own, and remembers whether that looked at it: what
// the job file gives and nobody reads is then said.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace ddp::worker {

/// Reads as a T. A copy may be looked at by anybody at any time, so to make one counts as a look.
template <typename T>
class Tracked {
 public:
  Tracked() = default;
  template <typename Value>
  requires(std::convertible_to<Value, T> && !std::same_as<std::remove_cvref_t<Value>, Tracked>)
      Tracked(Value&& value)
      : value_(std::forward<Value>(value)) {}  // in place of the value itself
  Tracked(const Tracked& other) : value_(other.read()), was_read_(true) {}
  Tracked(Tracked&& other) noexcept = default;
  Tracked& operator=(const Tracked& other) {
    value_ = other.read();
    was_read_ = true;
    return *this;
  }
  Tracked& operator=(Tracked&& other) noexcept = default;
  ~Tracked() = default;

  operator const T&() const { return read(); }
  const T* operator->() const { return &read(); }

  /// Whether it is another value than `usual`, and was not looked at. No look itself.
  [[nodiscard]] bool is_ignored(const T& usual) const { return !was_read_ && value_ != usual; }

 private:
  const T& read() const {
    if (!was_read_) was_read_ = true;  // a copy may be read by several threads
    return value_;
  }

  T value_{};
  mutable bool was_read_ = false;
};

}  // namespace ddp::worker
