// Instructions of a pickle, protocol 2, one after another: those that a state_dict needs.
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

  /// What is put lands on a stack, as pickletools tells it.
  void put(std::string_view text);
  void put(std::int64_t number);
  void put_false();
  /// A name of Python's; it is not called.
  void put_global(std::string_view module, std::string_view name);
  /// collections.OrderedDict(), empty.
  void put_dict();
  void put_tuple(std::span<const std::int64_t> numbers);

  void mark();
  void tuple();       // of what was put since the mark
  void set_items();   // the same, key, value, ..., into the dict below the mark
  void persistent();  // an id, in place of what is on top
  void call();        // a function and the tuple of its arguments

  /// The whole pickle.
  [[nodiscard]] std::string finish();

 private:
  std::string bytes_;
};

}  // namespace ddp::worker
