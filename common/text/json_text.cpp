#include "common/text/json_text.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "common/text/units.h"
#include "common/text/utf8.h"

namespace ddp {

std::string json_text(const boost::json::value& value) {
  if (value.is_double())
    return std::isfinite(value.get_double()) ? format_number(value.get_double()) : "null";
  if (value.is_array()) return "[" + join_words(value.get_array(), ",", json_text) + "]";
  if (value.is_object()) {
    const auto member = [](const auto& one) {
      return boost::json::serialize(one.key()) + ":" + json_text(one.value());
    };
    return "{" + join_words(value.get_object(), ",", member) + "}";
  }
  return boost::json::serialize(value);
}

std::string json_utf8(const std::string& text) {
  constexpr std::size_t kLongest = 8192;  // a path may have 4096 bytes
  return valid_utf8(text) == text.size() ? text : one_line(text, kLongest);
}

}  // namespace ddp
