// Finds the file that a mistyped path stands for.
#pragma once

#include <filesystem>
#include <string>

namespace ddp {

/// ", did you mean train.py?" with the path of a file of the same kind (its extension) in the same
/// directory, or ".". Looks at no more than kMostNames names.
std::string suggest_file(const std::filesystem::path& path);

inline constexpr int kMostNames = 2000;

}  // namespace ddp
