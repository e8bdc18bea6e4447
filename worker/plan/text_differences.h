// Compares the texts of all ranks: which must be equal, or all different. Names the ranks at fault.
// Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddp::worker {

/// Empty when all `texts`, which are by rank, are equal. Else one line about `what` that names the
/// ranks whose text is not the most frequent one (in a tie, the lowest rank's text counts). For
/// texts of several lines it adds the first line that differs, as both sides have it.
std::string find_disagreement(const std::string& what, const std::map<int, std::string>& texts);

/// Empty when no two `texts` are equal; empty texts are not compared. Else one line about `what`
/// that names the first ranks with equal texts.
std::string find_duplicates(const std::string& what, const std::map<int, std::string>& texts);

/// "rank 3", "ranks 1, 2 and 5", "ranks 0, 1, 2 and 97 more".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace ddp::worker
