// Finds the bracket, brace or quote that a YAML text opens and never closes. yaml-cpp only says where
// it gave up, which may be far behind the mistake, and accepts a quoted text that is never closed.
// Pure.
#pragma once

#include <optional>
#include <string_view>

#include "common/files/yaml.h"

namespace ddp {

struct Unclosed {
  Mark mark;
  char sign = '{';  // or '[', '"', '\''
};

/// The innermost bracket, brace or quote that is open at `noticed`, where a parser gave up, and
/// that nothing closes later; or the quote that another one has closed on that line.
std::optional<Unclosed> find_unclosed(std::string_view text, Mark noticed);

/// Whether the quoted text that begins at `begin` goes on to the end of `text`. False where no
/// quote is there.
bool is_open_quote(std::string_view text, Mark begin);

}  // namespace ddp
