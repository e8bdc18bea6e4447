#include "worker/save/format/pickle_writer.h"

#include <utility>

namespace ddp::worker {
namespace {

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

PickleWriter::PickleWriter() : bytes_("\x80\x02") {}

void PickleWriter::put(std::string_view text) {
  bytes_ += 'X';  // BINUNICODE
  append(bytes_, static_cast<std::uint32_t>(text.size()));
  bytes_ += text;
}

void PickleWriter::put(std::int64_t number) {
  if (number == static_cast<std::int32_t>(number)) {
    bytes_ += 'J';  // BININT
    append(bytes_, static_cast<std::int32_t>(number));
  } else {
    bytes_ += "\x8a\x08";  // LONG1
    append(bytes_, number);
  }
}

void PickleWriter::put_false() {
  bytes_ += '\x89';
}

void PickleWriter::put_global(std::string_view module, std::string_view name) {
  bytes_ += 'c';
  bytes_ += module;
  bytes_ += '\n';
  bytes_ += name;
  bytes_ += '\n';
}

void PickleWriter::put_dict() {
  put_global("collections", "OrderedDict");
  bytes_ += ")R";  // EMPTY_TUPLE REDUCE
}

void PickleWriter::put_tuple(std::span<const std::int64_t> numbers) {
  mark();
  for (const std::int64_t number : numbers)
    put(number);
  tuple();
}

void PickleWriter::mark() {
  bytes_ += '(';
}

void PickleWriter::tuple() {
  bytes_ += 't';
}

void PickleWriter::set_items() {
  bytes_ += 'u';
}

void PickleWriter::persistent() {
  bytes_ += 'Q';
}

void PickleWriter::call() {
  bytes_ += 'R';
}

std::string PickleWriter::finish() {
  bytes_ += '.';
  return std::exchange(bytes_, {});
}

}  // namespace ddp::worker
