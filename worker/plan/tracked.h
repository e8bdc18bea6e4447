// A value that is handed to a user's own code and records whether that code read it. So settings of
// the job file that nobody reads can be reported.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace ddp::worker {

/// Converts to a T. Making a copy counts as reading, because a copy may be read later.
template <typename T>
class Tracked {
 public:
  Tracked() = default;
  template <typename Value>
  requires(std::convertible_to<Value, T> && !std::same_as<std::remove_cvref_t<Value>, Tracked>)
      Tracked(Value&& value)
      : value_(std::forward<Value>(value)) {}  // implicit: a Tracked<T> is set like a T
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

  /// Whether it differs from `usual` and was not read. Does not count as reading.
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
