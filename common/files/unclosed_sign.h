// Finds the bracket, brace or quote that a YAML text opens and never closes. yaml-cpp only says
// where it gave up, which may be far behind the mistake, and accepts a quoted text that is never
// closed. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "common/files/yaml.h"

namespace ddp {

struct Unclosed {
  Mark mark;
  char sign = '{';  // or '[', '"', '\''
};

/// `noticed`: where a parser gave up. Returns the innermost bracket, brace or quote that is open
/// there and is not closed later; or a quote of an earlier line that a quote on that line has
/// closed.
std::optional<Unclosed> find_unclosed(std::string_view text, Mark noticed);

/// Whether the quote at `begin` is never closed: the quoted text reaches the end of `text`. False
/// if there is no quote at `begin`.
bool is_open_quote(std::string_view text, Mark begin);

}  // namespace ddp
