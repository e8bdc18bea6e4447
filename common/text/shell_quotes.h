// Words for shells of the Bourne family. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddp {

/// `text` in single quotes; it may have any bytes but NUL.
std::string in_quotes(std::string_view text);

}  // namespace ddp
