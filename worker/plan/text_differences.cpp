#include "worker/plan/text_differences.h"

#include <algorithm>
#include <map>

#include "common/text/split.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kNamed = 8;

const std::string& common_text(const std::map<int, std::string>& texts) {
  std::map<std::string, int> count;
  for (const auto& [rank, text] : texts)
    ++count[text];
  // max_element takes the first of equally frequent texts: the lowest rank's.
  const auto fewer = [&count](const auto& a, const auto& b) {
    return count.at(a.second) < count.at(b.second);
  };
  return std::max_element(texts.begin(), texts.end(), fewer)->second;
}

/// The first line of `a` that `b` does not have at the same place.
std::string differing_line(const std::string& a, const std::string& b) {
  const std::vector<std::string_view> ours = split_lines(a);
  const std::vector<std::string_view> theirs = split_lines(b);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (i >= theirs.size() || ours[i] != theirs[i]) return "\"" + std::string(ours[i]) + "\"";
  }
  return theirs.size() > ours.size() ? "no \"" + std::string(theirs[ours.size()]) + "\""
                                     : "nothing";
}

std::string ranks_have(const std::vector<int>& ranks) {
  return name_ranks(ranks) + (ranks.size() == 1 ? " has " : " have ");
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  const std::size_t named = ranks.size() > kNamed ? kNamed - 1 : ranks.size();
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (named < ranks.size()) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

std::string find_disagreement(const std::string& what, const std::map<int, std::string>& texts) {
  if (texts.empty()) return "";
  const std::string& common = common_text(texts);
  const std::string* odd = nullptr;
  std::vector<int> alike;
  std::vector<int> different;  // ranks with the same text as the first deviating rank
  std::vector<int> others;     // ranks with further texts
  for (const auto& [rank, text] : texts) {
    if (text == common) {
      alike.push_back(rank);
      continue;
    }
    if (odd == nullptr) odd = &text;
    (text == *odd ? different : others).push_back(rank);
  }
  if (odd == nullptr) return "";
  std::string line = "the ranks differ in their " + what + ": " + ranks_have(different) +
                     differing_line(*odd, common) + ", " + ranks_have(alike) +
                     differing_line(common, *odd);
  if (!others.empty()) line += "; other values: " + name_ranks(others);
  return line;
}

std::string find_duplicates(const std::string& what, const std::map<int, std::string>& texts) {
  std::map<std::string, std::vector<int>> ranks;
  for (const auto& [rank, text] : texts) {
    if (!text.empty()) ranks[text].push_back(rank);
  }
  for (const auto& [text, sharing] : ranks) {
    if (sharing.size() > 1) return name_ranks(sharing) + " have the same " + what + ", " + text;
  }
  return "";
}

}  // namespace ddp::worker
