// The limit of a user's mistakes that are shown together.
#pragma once

#include <cstddef>

namespace ddp {

/// A UsageError with more problems shows the first of them and the number of the rest. Code that
/// collects problems may leave the text of the rest empty.
inline constexpr std::size_t kShownProblems = 20;

}  // namespace ddp
