#include "worker/save/format/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "common/error.h"

namespace ddp::worker {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMaxName =
    1000;  // limits a global, the only text that is copied from the memo

// One byte of a pickle can put a value of 80 bytes on the stack. A list of numbers takes 20 bytes
// of its own for each number, a list of tensors 15.
constexpr std::size_t kFree = std::size_t{64} << 20;
constexpr std::size_t kPerByte = 32;
constexpr std::size_t kOfHeap = 32;  // overhead of an allocation

// Interprets the pickle in one pass, by a stack with marks and a memo of values by number.
class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, const std::string& file)
      : rest_(bytes), file_(file), left_(kFree + kPerByte * bytes.size()) {}

  Pickle read() {
    while (true) {
      const auto code = take<unsigned char>();
      if (code == '.') break;
      execute(code);
    }
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UsageError(file_ + ": its list of tensors " + what);
  }

  std::string_view take_text(std::uint64_t size) {
    if (size > rest_.size()) refuse("is cut off");
    const std::string_view text(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    return text;
  }

  template <typename T>
  T take() {
    T value{};
    std::memcpy(&value, take_text(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view take_line() {
    const std::string_view all(reinterpret_cast<const char*>(rest_.data()), rest_.size());
    const std::string_view line = take_text(all.substr(0, all.find('\n')).size());
    take_text(1);
    return line;
  }

  // Little endian, two's complement. Longer integers cannot be sizes.
  void push_long(std::uint64_t size) {
    const std::string_view bytes = take_text(size);
    if (size > sizeof(std::int64_t)) return push({});
    std::int64_t value = 0;
    const bool is_negative = size > 0 && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
    if (is_negative) value = -1;
    std::memcpy(&value, bytes.data(), size);
    push_integer(value);
  }

  void charge(std::size_t bytes) {
    if (bytes > left_) refuse("asks for more memory than a file of its size may");
    left_ -= bytes;
  }

  void push_place(std::size_t place) {
    charge(sizeof place);
    stack_.push_back(place);
  }

  void push(PickleValue value) {
    const std::size_t items = value.items.size() * sizeof(std::size_t);
    charge(sizeof value + value.text.size() + (items > 0 ? kOfHeap + items : 0));
    pickle_.values.push_back(std::move(value));
    push_place(pickle_.values.size() - 1);
  }

  // A value that cannot change is stored once, and shared by all its users.
  void push_constant(const PickleValue& value) {
    const std::pair key{value.kind, value.integer};
    const auto found = constants_.find(key);
    if (found != constants_.end()) return push_place(found->second);
    push(value);
    constants_.emplace(key, stack_.back());
  }

  void push_integer(std::int64_t value) {
    const PickleValue number{.kind = Kind::integer, .integer = value};
    const bool is_small = value >= 0 && value < 256;
    return is_small ? push_constant(number) : push(number);
  }
  void push_text(std::string_view text) { push({.kind = Kind::text, .text = std::string(text)}); }
  void push_global(std::string_view module, std::string_view name) {
    push({.kind = Kind::global, .text = std::string(module) + "." + std::string(name)});
  }

  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::size_t top() const {
    if (stack_.size() <= floor()) refuse("is damaged");
    return stack_.back();
  }

  std::size_t pop() {
    const std::size_t place = top();
    stack_.pop_back();
    return place;
  }

  // The newest `count` values, oldest first.
  std::vector<std::size_t> pop_last(std::size_t count) {
    if (stack_.size() - floor() < count) refuse("is damaged");
    std::vector<std::size_t> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  std::vector<std::size_t> pop_to_mark() {
    if (marks_.empty()) refuse("is damaged");
    std::vector<std::size_t> items = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  void push_tuple(std::vector<std::size_t> items) {
    push({.kind = Kind::tuple, .items = std::move(items)});
  }

  // Adds to the value on top. A value of another kind is an object that no caller needs: ignored.
  void add(const std::vector<std::size_t>& items, Kind kind) {
    PickleValue& target = pickle_.values[top()];
    if (target.kind != kind) return;
    // Charged twice, because the list grows by doubling.
    charge((target.items.empty() ? kOfHeap : 0) + 2 * items.size() * sizeof(std::size_t));
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void call() {
    const std::size_t arguments = pop();
    const std::size_t function = pop();
    const std::string& name = pickle_[function].text;
    if (pickle_[function].kind == Kind::global && name == "collections.OrderedDict" &&
        pickle_[arguments].items.empty())
      return push({.kind = Kind::dict});
    push({.kind = Kind::call, .items = {function, arguments}});
  }

  // Python numbers the memo's entries consecutively.
  void remember(std::uint64_t number) {
    const std::size_t place = top();
    if (number < memo_.size()) {
      memo_[number] = place;
      return;
    }
    charge(number == memo_.size() ? 2 * sizeof place : 2 * kOfHeap);
    if (number == memo_.size()) odd_memo_.erase(number);
    if (number == memo_.size())
      memo_.push_back(place);
    else
      odd_memo_[number] = place;
  }

  void recall(std::uint64_t number) {
    if (number < memo_.size()) return push_place(memo_[number]);
    const auto entry = odd_memo_.find(number);
    if (entry == odd_memo_.end()) refuse("is damaged");
    push_place(entry->second);
  }

  void execute(unsigned char code);

  std::span<const std::byte> rest_;
  const std::string& file_;
  Pickle pickle_;
  std::vector<std::size_t> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::vector<std::size_t> memo_;
  std::unordered_map<std::uint64_t, std::size_t> odd_memo_;  // entries with other numbers
  std::map<std::pair<Kind, std::int64_t>, std::size_t> constants_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> globals_;  // by their two names
  std::size_t left_;  // bytes of memory that may still be used
};

// The names in the comments are those of pickletools.
void PickleReader::execute(unsigned char code) {
  switch (code) {
    case 0x80:  // PROTO
      if (const int version = take<std::uint8_t>(); version < 2 || version > 5)
        refuse("is pickle protocol " + std::to_string(version) + ", known are 2 to 5");
      return;
    case 0x95:  // FRAME
      take<std::uint64_t>();
      return;
    case '(':  // MARK
      charge(sizeof(std::size_t));
      marks_.push_back(stack_.size());
      return;
    case '0':  // POP
      if (stack_.size() > floor())
        stack_.pop_back();
      else
        pop_to_mark();
      return;
    case '1':  // POP_MARK
      pop_to_mark();
      return;
    case '2':  // DUP
      return push_place(top());
    case 'N':  // NONE
      return push_constant({.kind = Kind::none});
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return push_constant({.kind = Kind::boolean, .integer = code == 0x88 ? 1 : 0});
    case 'J':  // BININT
      return push_integer(take<std::int32_t>());
    case 'K':  // BININT1
      return push_integer(take<std::uint8_t>());
    case 'M':  // BININT2
      return push_integer(take<std::uint16_t>());
    case 0x8a:  // LONG1
      return push_long(take<std::uint8_t>());
    case 0x8b:  // LONG4
      return push_long(take<std::uint32_t>());
    case 'G':  // BINFLOAT, big-endian
      return push({.kind = Kind::real,
                   .real = std::bit_cast<double>(__builtin_bswap64(take<std::uint64_t>()))});
    case 'X':  // BINUNICODE
      return push_text(take_text(take<std::uint32_t>()));
    case 0x8c:  // SHORT_BINUNICODE
      return push_text(take_text(take<std::uint8_t>()));
    case 0x8d:  // BINUNICODE8
      return push_text(take_text(take<std::uint64_t>()));
    case 'U':  // SHORT_BINSTRING
    case 'C':  // SHORT_BINBYTES
      take_text(take<std::uint8_t>());
      return push({});
    case 'T':  // BINSTRING
    case 'B':  // BINBYTES
      take_text(take<std::uint32_t>());
      return push({});
    case 0x8e:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      take_text(take<std::uint64_t>());
      return push({});
    case ')':  // EMPTY_TUPLE
      return push_constant({.kind = Kind::tuple});
    case 't':  // TUPLE
      return push_tuple(pop_to_mark());
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      return push_tuple(pop_last(code - 0x84u));
    case ']':  // EMPTY_LIST
      return push({.kind = Kind::list});
    case 'a':  // APPEND
      return add(pop_last(1), Kind::list);
    case 'e':  // APPENDS
      return add(pop_to_mark(), Kind::list);
    case '}':  // EMPTY_DICT
      return push({.kind = Kind::dict});
    case 's':  // SETITEM
      return add(pop_last(2), Kind::dict);
    case 'u': {  // SETITEMS
      const std::vector<std::size_t> items = pop_to_mark();
      if (items.size() % 2 != 0) refuse("is damaged");
      return add(items, Kind::dict);
    }
    case 0x8f:  // EMPTY_SET
      return push({});
    case 0x90:  // ADDITEMS
      pop_to_mark();
      return;
    case 0x91:  // FROZENSET
      pop_to_mark();
      return push({});
    case 'c': {  // GLOBAL
      const std::string_view module = take_line();
      return push_global(module, take_line());
    }
    case 0x93: {  // STACK_GLOBAL
      const std::vector<std::size_t> names = pop_last(2);
      for (const std::size_t part : names)
        if (pickle_[part].kind != Kind::text || pickle_[part].text.size() > kMaxName)
          refuse("is damaged");
      const std::pair both{names[0], names[1]};
      const auto known = globals_.find(both);
      if (known != globals_.end()) return push_place(known->second);
      push_global(pickle_[names[0]].text, pickle_[names[1]].text);
      charge(2 * kOfHeap);
      globals_.emplace(both, stack_.back());
      return;
    }
    case 'R':   // REDUCE
    case 0x81:  // NEWOBJ
      return call();
    case 0x92:  // NEWOBJ_EX
      pop();    // named arguments
      return call();
    case 'b':  // BUILD: attributes of the value below, as OrderedDict's _metadata
      pop();
      top();
      return;
    case 'Q':  // BINPERSID
      return push({.kind = Kind::persistent, .items = pop_last(1)});
    case 'q':  // BINPUT
      return remember(take<std::uint8_t>());
    case 'r':  // LONG_BINPUT
      return remember(take<std::uint32_t>());
    case 0x94:  // MEMOIZE
      return remember(memo_.size() + odd_memo_.size());
    case 'h':  // BINGET
      return recall(take<std::uint8_t>());
    case 'j':  // LONG_BINGET
      return recall(take<std::uint32_t>());
    default:
      refuse(fmt::format("holds the instruction {:#04x}, which no state_dict needs", code));
  }
}

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes, const std::string& name) {
  return PickleReader(bytes, name).read();
}

}  // namespace ddp::worker
