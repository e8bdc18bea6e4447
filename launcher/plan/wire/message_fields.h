// Messages as JSON objects. One function `fields(io, message)` names a message's fields for both
// directions: a Writer puts them into an object, a Reader takes them out of one. For codecs'
// sources only; message_codec.h has the promises.
// Before it writes or reads, a codec adds to this namespace fields() and kType of its messages, and
// is_valid() for rules over several fields.
#pragma once

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/text/utf8.h"
#include "launcher/plan/job_size.h"
#include "launcher/plan/wire/message_codec.h"

namespace ddp::launcher::wire {

namespace json = boost::json;

inline constexpr std::size_t kMaxDepth = 16;
inline constexpr std::size_t kMaxTexts = 1024;  // of one map
inline constexpr std::int64_t kMany = 1'000'000'000;
// 31 years in nanoseconds, or an exabyte. The sum of a few does not overflow.
inline constexpr std::int64_t kLarge = 1'000'000'000'000'000'000;

/// The range of a number, both ends included.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = kMany;
};
inline constexpr Range kCode{0, 255};
inline constexpr Range kFailure{1, 255};
inline constexpr Range kSignal{0, 64};
inline constexpr Range kNotNegative{0, kLarge};    // bytes, ticks, a steady clock, a span of time
inline constexpr Range kSigned{-kLarge, kLarge};   // a worker's counts, a time since a begin
inline constexpr Range kWallClock{0, 9 * kLarge};  // nanoseconds since 1970; only shown
inline constexpr Range kGrace{0, 30LL * 24 * 3600 * 1'000'000'000};
inline constexpr Range kPid{0, 1 << 22};  // proc(5), pid_max
inline constexpr Range kPort{0, 65535};
inline constexpr Range kTerminalSide{0, 65535};  // columns or rows, as the kernel counts them
inline constexpr Range kRank{0, kMaxWorkers - 1};
inline constexpr Range kNode{0, kMaxNodes - 1};
inline constexpr Range kLocalRank{0, kMaxWorkersOfNode - 1};

template <typename M, typename T>
concept A = std::same_as<std::remove_const_t<M>, T>;

template <typename M>
inline constexpr std::string_view kType = "";

/// Checks rules over several fields.
template <typename M>
bool is_valid(const M&) {
  return true;
}

// --- Writing.

/// Valid UTF-8, at most `most` bytes of `text` and a mark where it was cut.
inline std::string cleaned(std::string_view text, std::size_t most) {
  const bool is_cut = text.size() > most;
  text = text.substr(0, most);
  std::string result;
  while (true) {
    const std::size_t good = valid_utf8(text);
    result.append(text.substr(0, good));
    if (good == text.size()) break;
    const bool is_half = is_cut && text.size() - good < 4;  // a character halved by the cut
    if (!is_half) result.append(kReplacement);
    text.remove_prefix(good + 1);
  }
  return is_cut ? result + "..." : result;
}

/// Appends the character of that number in UTF-8.
inline void append_latin1(std::string& text, unsigned char byte) {
  if (byte < 0x80) {
    text += static_cast<char>(byte);
  } else {
    text += static_cast<char>(0xC0 | (byte >> 6));
    text += static_cast<char>(0x80 | (byte & 0x3F));
  }
}

/// What append_latin1() has appended. Nothing: it holds a character above 255.
inline std::optional<std::string> latin1_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      bytes += static_cast<char>(lead);
      continue;
    }
    const bool is_pair = (lead == 0xC2 || lead == 0xC3) && i + 1 < text.size();
    if (!is_pair) return std::nullopt;
    bytes += static_cast<char>((lead << 6) | (static_cast<unsigned char>(text[++i]) & 0x3F));
  }
  return bytes;
}

/// Puts a message into an object. A number outside its range becomes the nearest in it, so that a
/// broken worker's page never makes its node's message invalid.
class Writer {
 public:
  template <typename T>
  void field(std::string_view name, const T& value, Range range = {}) {
    object_[name] = to_json(value, range);
  }
  /// Nothing takes no bytes, where field() writes "null".
  template <typename T>
  void maybe_field(std::string_view name, const std::optional<T>& value) {
    if (value) field(name, *value);
  }
  void maybe_flag(std::string_view name, bool value) {
    if (value) field(name, value);
  }
  void whole_text(std::string_view name, const std::string& text) {
    object_[name] = cleaned(text, std::string::npos);
  }
  /// JSON has text alone, so each byte becomes the character with its number.
  void bytes(std::string_view name, const std::string& bytes) {
    std::string text;
    for (const char c : bytes)
      append_latin1(text, static_cast<unsigned char>(c));
    object_[name] = text;
  }
  template <typename M>
  static json::object write(const M& message) {
    Writer writer;
    fields(writer, message);
    return std::move(writer.object_);
  }

 private:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  static json::value to_json(T value, Range range) {
    if constexpr (std::same_as<T, bool>) {
      return value;
    } else if constexpr (std::same_as<T, std::uint64_t>) {
      const auto most = static_cast<std::uint64_t>(range.most);
      return to_json(static_cast<std::int64_t>(std::min(value, most)), range);
    } else {
      return std::clamp(static_cast<std::int64_t>(value), range.least, range.most);
    }
  }
  static json::value to_json(double value, Range) {
    return std::isfinite(value) ? json::value(value) : json::value(nullptr);  // JSON knows no NaN
  }
  static json::value to_json(const std::string& text, Range) {
    return json::value(cleaned(text, kLongestText));
  }
  template <typename Period>
  static json::value to_json(std::chrono::duration<std::int64_t, Period> time, Range range) {
    return to_json(std::int64_t{std::chrono::nanoseconds(time).count()}, range);
  }
  static json::value to_json(std::chrono::system_clock::time_point time, Range range) {
    return to_json(time.time_since_epoch(), range);
  }
  template <typename T>
  static json::value to_json(const std::optional<T>& value, Range range) {
    return value ? to_json(*value, range) : json::value(nullptr);
  }
  template <typename T>
  static json::value to_json(const std::vector<T>& values, Range range) {
    json::array array;
    array.reserve(values.size());
    for (const T& value : values)
      array.push_back(to_json(value, range));
    return array;
  }
  static json::value to_json(const std::map<std::string, std::string>& texts, Range range) {
    json::object object;
    for (const auto& [name, text] : texts)
      object[cleaned(name, kLongestText)] = to_json(text, range);
    return object;
  }
  template <typename M>
  requires std::is_class_v<M>
  static json::value to_json(const M& message, Range) { return write(message); }

  json::object object_;
};

template <typename M>
std::string write_message(const M& message) {
  json::object object = Writer::write(message);
  object["type"] = kType<M>;
  return json::serialize(object);
}

// --- Reading.

class Reader {
 public:
  explicit Reader(const json::object& object) : object_(object) {}

  template <typename T>
  void field(std::string_view name, T& value, Range range = {}) {
    const json::value* const found = is_good_ ? object_.if_contains(name) : nullptr;
    is_good_ = found != nullptr && take(*found, value, range);
  }
  template <typename T>
  void maybe_field(std::string_view name, std::optional<T>& value) {
    value.reset();
    if (is_good_ && object_.contains(name)) field(name, value.emplace());
  }
  void maybe_flag(std::string_view name, bool& value) {
    value = false;
    if (is_good_ && object_.contains(name)) field(name, value);
  }
  /// Reads a text of any length that fits into a frame.
  void whole_text(std::string_view name, std::string& text) {
    const json::value* const found = is_good_ ? object_.if_contains(name) : nullptr;
    const json::string* const string = found == nullptr ? nullptr : found->if_string();
    is_good_ = string != nullptr;
    if (is_good_) text.assign(string->data(), string->size());
  }

  void bytes(std::string_view name, std::string& bytes) {
    std::string text;
    whole_text(name, text);
    std::optional<std::string> read = latin1_bytes(text);
    is_good_ = is_good_ && read.has_value();
    if (is_good_) bytes = std::move(*read);
  }

  template <typename M>
  static bool read(const json::value& from, M& message) {
    const json::object* const object = from.if_object();
    if (object == nullptr) return false;
    Reader reader(*object);
    fields(reader, message);
    return reader.is_good_ && is_valid(message);
  }

 private:
  template <typename T>
  requires std::integral<T> || std::is_enum_v<T>
  static bool take(const json::value& from, T& value, Range range) {
    if constexpr (std::same_as<T, bool>) {
      if (from.is_bool()) value = from.get_bool();
      return from.is_bool();
    } else {
      const std::int64_t* const number = from.if_int64();
      if (number == nullptr || *number < range.least || *number > range.most) return false;
      value = static_cast<T>(*number);
      return true;
    }
  }
  static bool take(const json::value& from, double& value, Range) {
    boost::system::error_code error;
    value = from.is_null() ? std::nan("") : from.to_number<double>(error);
    return !error;
  }
  static bool take(const json::value& from, std::string& text, Range) {
    // The longest text that a Writer writes: a byte that is not UTF-8 becomes three.
    constexpr std::size_t kLongest = kReplacement.size() * (kLongestText + 1);
    const json::string* const string = from.if_string();
    if (string == nullptr || string->size() > kLongest) return false;
    text.assign(string->data(), string->size());
    return true;
  }
  template <typename Period>
  static bool take(const json::value& from,
                   std::chrono::duration<std::int64_t, Period>& time,
                   Range range) {
    std::int64_t count = 0;
    if (!take(from, count, range)) return false;
    time = std::chrono::duration_cast<std::chrono::duration<std::int64_t, Period>>(
        std::chrono::nanoseconds(count));
    return true;
  }
  static bool take(const json::value& from,
                   std::chrono::system_clock::time_point& time,
                   Range range) {
    std::chrono::nanoseconds since{0};
    if (!take(from, since, range)) return false;
    time = std::chrono::system_clock::time_point(since);
    return true;
  }
  template <typename T>
  static bool take(const json::value& from, std::optional<T>& value, Range range) {
    value.reset();
    return from.is_null() || take(from, value.emplace(), range);
  }
  template <typename T>
  static bool take(const json::value& from, std::vector<T>& values, Range range) {
    const json::array* const array = from.if_array();
    if (array == nullptr) return false;
    values.clear();
    return std::ranges::all_of(*array, [&](const json::value& value) {
      return take(value, values.emplace_back(), range);
    });
  }
  static bool take(const json::value& from, std::map<std::string, std::string>& texts, Range) {
    const json::object* const object = from.if_object();
    if (object == nullptr || object->size() > kMaxTexts) return false;
    texts.clear();
    return std::ranges::all_of(*object, [&](const auto& entry) {
      return take(entry.value(), texts[std::string(entry.key())], Range{});
    });
  }
  template <typename M>
  requires std::is_class_v<M>
  static bool take(const json::value& from, M& message, Range) { return read(from, message); }

  const json::object& object_;
  bool is_good_ = true;
};

/// Reads the message of that type; nothing: the variant has no such type, or it is not valid.
template <typename Variant, std::size_t I = 0>
std::optional<Variant> read_as(std::string_view type, const json::value& from) {
  if constexpr (I < std::variant_size_v<Variant>) {
    using M = std::variant_alternative_t<I, Variant>;
    if (type != kType<M>) return read_as<Variant, I + 1>(type, from);
    M message;
    if (Reader::read(from, message)) return message;
  }
  return std::nullopt;
}

template <typename Variant>
std::optional<Variant> decode(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  const json::value root = json::parse(text, error, {}, options);
  const json::object* const object = error ? nullptr : root.if_object();
  const json::value* const type = object == nullptr ? nullptr : object->if_contains("type");
  const json::string* const name = type == nullptr ? nullptr : type->if_string();
  if (name == nullptr) return std::nullopt;
  return read_as<Variant>(std::string_view(name->data(), name->size()), root);
}

}  // namespace ddp::launcher::wire
