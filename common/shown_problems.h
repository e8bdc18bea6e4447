// How many of a user's mistakes are shown together.
#pragma once

#include <cstddef>

namespace ddp {

/// A UsageError of more says the first of them and how many more there are; anyone who collects
/// them need not write out those that are only counted.
inline constexpr std::size_t kShownProblems = 20;

}  // namespace ddp
