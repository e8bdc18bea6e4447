// Reads a Python pickle into plain values. A pickle is a program that may call any function; here
// nothing is executed: names of functions stay names, and calls stay descriptions of calls.
// Protocols 2 to 5, without the text opcodes of protocol 0, which nothing has written since 2001.
// Source: CPython, Lib/pickletools.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::worker {

/// One value; it refers to others by index into Pickle::values.
struct PickleValue {
  enum class Kind {
    none,
    boolean,     // integer
    integer,     // integer
    real,        // real
    text,        // text
    tuple,       // items
    list,        // items
    dict,        // items: key, value, key, value, ...
    global,      // text: "module.name"
    call,        // items: function, arguments
    persistent,  // items: the id
    other        // an object that no reader needs
  };

  Kind kind = Kind::other;
  std::int64_t integer = 0;
  double real = 0;
  std::string text{};
  std::vector<std::size_t> items{};
};

/// A graph: a pickle may refer to a value many times, and an immutable value (None, (), a small
/// number, a function's name) is stored once. collections.OrderedDict() is a dict.
struct Pickle {
  std::deque<PickleValue> values;  // a deque grows without copying its elements
  std::size_t root = 0;

  [[nodiscard]] const PickleValue& operator[](std::size_t place) const { return values[place]; }
  [[nodiscard]] const PickleValue& item(const PickleValue& value, std::size_t i) const {
    return values[value.items[i]];
  }
};

/// `name` is the file's name in messages. Time and memory are linear in the size; memory is limited
/// to 64 MiB plus 32 bytes for each byte of the pickle.
/// Errors: UsageError when the pickle is cut off, damaged, of another protocol, or needs more
/// memory.
Pickle read_pickle(std::span<const std::byte> bytes, const std::string& name);

}  // namespace ddp::worker
