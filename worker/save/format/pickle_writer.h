// Writes the instructions of a pickle, protocol 2, that a state_dict needs.
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

  /// Each put lands on the stack, as pickletools describes it.
  void put(std::string_view text);
  void put(std::int64_t number);
  void put_false();
  /// A name in Python; it is not called.
  void put_global(std::string_view module, std::string_view name);
  /// collections.OrderedDict(), empty.
  void put_dict();
  void put_tuple(std::span<const std::int64_t> numbers);

  void mark();
  void tuple();       // from what was put since the mark
  void set_items();   // puts what was put since the mark (key, value, ...) into the dict below it
  void persistent();  // turns the value on top, an id, into what it refers to
  void call();        // calls a function with the tuple of its arguments

  /// The whole pickle.
  [[nodiscard]] std::string finish();

 private:
  std::string bytes_;
};

}  // namespace ddp::worker
