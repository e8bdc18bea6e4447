// JSON as programs and people write it: boost::json writes 4.5 as 4.5E0.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace ddp {

/// Valid JSON in one line; a number has as few digits as say it exactly.
std::string json_text(const boost::json::value& value);

/// As it may be part of a value: JSON is UTF-8; paths, and names in other programs' files, are any
/// bytes.
std::string json_utf8(const std::string& text);

}  // namespace ddp
