// A value that is handed to code of a program's own, and remembers whether that looked at it: what
// the job file gives and nobody reads is then said.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace ddp::worker {

/// Reads as a T. A copy may be looked at by anybody at any time, so to make one counts as a look.
template <typename T>
class Noted {
 public:
  Noted() = default;
  template <typename Value>
  requires(std::convertible_to<Value, T> && !std::same_as<std::remove_cvref_t<Value>, Noted>)
      Noted(Value&& value)
      : value_(std::forward<Value>(value)) {}  // in place of the value itself
  Noted(const Noted& other) : value_(other.look()), was_read_(true) {}
  Noted(Noted&& other) noexcept = default;
  Noted& operator=(const Noted& other) {
    value_ = other.look();
    was_read_ = true;
    return *this;
  }
  Noted& operator=(Noted&& other) noexcept = default;
  ~Noted() = default;

  operator const T&() const { return look(); }
  const T* operator->() const { return &look(); }

  /// Whether it is another value than `usual`, and was not looked at. No look itself.
  [[nodiscard]] bool is_ignored(const T& usual) const { return !was_read_ && value_ != usual; }

 private:
  const T& look() const {
    if (!was_read_) was_read_ = true;  // a copy may be read by several threads
    return value_;
  }

  T value_{};
  mutable bool was_read_ = false;
};

}  // namespace ddp::worker
