// JSON with usual numbers: boost::json writes 4.5 as 4.5E0.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace ddp {

/// Valid JSON in one line; a number has as few digits as are exact.
std::string json_text(const boost::json::value& value);

/// Makes a text valid for JSON, which is UTF-8; paths, and names in other programs' files, may be
/// any bytes.
std::string json_utf8(const std::string& text);

}  // namespace ddp
