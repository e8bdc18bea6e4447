// What must be equal on all ranks, and which ranks differ. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddp::worker {

/// Compares the texts that ranks gave for `what`, by rank. Empty when they are equal; else one line
/// that names the odd ranks: those outside the largest set of equal texts (of equally large sets,
/// the lowest rank's counts). For texts of several lines it adds the first line that differs, as
/// both sides have it.
std::string find_disagreement(const std::string& what, const std::map<int, std::string>& texts);

/// The opposite: no two texts may be equal, except empty ones. Empty when that is so; else one line
/// that names the first ranks with equal texts.
std::string find_repetition(const std::string& what, const std::map<int, std::string>& texts);

/// "rank 3", "ranks 1, 2 and 5", "ranks 0, 1, 2 and 97 more".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace ddp::worker
