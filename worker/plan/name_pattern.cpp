#include "worker/plan/name_pattern.h"

#include <fnmatch.h>

#include <set>

#include "common/error.h"
#include "common/text/spelling.h"

namespace ddp::worker {
namespace {

// Patterns that the user may have meant: each name, and each beginning of a name with `.*`.
std::set<std::string> likely_patterns(const std::vector<std::string>& names) {
  std::set<std::string> patterns(names.begin(), names.end());
  for (const std::string& name : names) {
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      patterns.insert(name.substr(0, dot) + ".*");
  }
  return patterns;
}

}  // namespace

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<std::size_t> find_matches(const std::string& key,
                                      const std::string& pattern,
                                      const std::vector<std::string>& names) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (matches(pattern, names[i])) places.push_back(i);
  if (!places.empty()) return places;
  const std::set<std::string> likely = likely_patterns(names);
  const std::vector<std::string_view> candidates(likely.begin(), likely.end());
  std::string text = key + ": \"" + pattern + "\" matches no parameter of the model";
  if (const auto close = did_you_mean(pattern, candidates))
    text += ", did you mean \"" + *close + "\"?";
  else if (!names.empty())
    text += ". They go from " + names.front() + " to " + names.back() + ".";
  throw UsageError(text);
}

}  // namespace ddp::worker
