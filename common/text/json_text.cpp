#include "common/text/json_text.h"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>

#include "common/text/one_line.h"
#include "common/text/utf8.h"

namespace ddp {
namespace {

void append(std::string& text, const boost::json::value& value);

void append(std::string& text, double number) {
  std::array<char, 32> digits{};
  if (!std::isfinite(number)) {
    text += "null";  // JSON knows no NaN
    return;
  }
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text.append(digits.data(), written.ptr);
}

void append(std::string& text, const boost::json::array& array) {
  text += '[';
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (i > 0) text += ',';
    append(text, array[i]);
  }
  text += ']';
}

void append(std::string& text, const boost::json::object& object) {
  text += '{';
  bool is_first = true;
  for (const auto& [name, value] : object) {
    if (!is_first) text += ',';
    is_first = false;
    text += boost::json::serialize(name) + ":";
    append(text, value);
  }
  text += '}';
}

void append(std::string& text, const boost::json::value& value) {
  if (value.is_double()) {
    append(text, value.get_double());
  } else if (value.is_array()) {
    append(text, value.get_array());
  } else if (value.is_object()) {
    append(text, value.get_object());
  } else {
    text += boost::json::serialize(value);
  }
}

}  // namespace

std::string json_text(const boost::json::value& value) {
  std::string text;
  append(text, value);
  return text;
}

std::string json_utf8(const std::string& text) {
  constexpr std::size_t kLongest = 8192;  // a path may have 4096 bytes
  return valid_utf8(text) == text.size() ? text : one_line(text, kLongest);
}

}  // namespace ddp
