// Writes a pickle, protocol 2, with the instructions that a state_dict needs.
// Source: CPython, Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ddp::worker {

class PickleWriter {
 public:
  PickleWriter();

  /// Each put_...() pushes a value on the pickle's stack, as in pickletools.
  void put(std::string_view text);
  void put(std::int64_t number);
  void put_false();
  /// A Python function or class by name; it is not called.
  void put_global(std::string_view module, std::string_view name);
  /// collections.OrderedDict(), empty.
  void put_dict();
  void put_tuple(std::span<const std::int64_t> numbers);

  void mark();
  void tuple();       // of the values since the mark
  void set_items();   // moves the values since the mark (key, value, ...) into the dict below it
  void persistent();  // replaces the id on top by the object that it refers to
  void call();        // replaces a function and the tuple of its arguments by the result

  /// The whole pickle.
  [[nodiscard]] std::string finish();

 private:
  std::string bytes_;
};

}  // namespace ddp::worker
