// What the ranks must have alike, and who differs. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddp::worker {

/// Compares the texts that ranks gave for `what`, by rank. Empty when they are equal; else one
/// line that names the odd ranks (those outside the largest set of equal texts; of equally large
/// ones the lowest rank's counts), and of a text of several lines the first that differs, as both
/// sides have it.
std::string find_disagreement(const std::string& what, const std::map<int, std::string>& texts);

/// The opposite: every text must be another, empty ones apart. Empty when that is so; else one line
/// that names the first ranks with the same.
std::string find_repetition(const std::string& what, const std::map<int, std::string>& texts);

/// "rank 3", "ranks 1, 2 and 5", "ranks 0, 1, 2 and 97 more".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace ddp::worker
