#include "worker/data/sets/class_names.h"

#include <algorithm>

#include "common/text/split.h"
#include "worker/data/sets/image_set.h"

namespace ddp::worker {

std::vector<std::string> published_classes(std::string_view set) {
  set = set.substr(0, set.find(' '));
  const auto known = std::ranges::find(built_in_sets(), set, &BuiltInSet::name);
  std::vector<std::string> classes;
  if (known == built_in_sets().end() || known->classes.empty()) return classes;
  for (const std::string_view name : split(known->classes, known->mark))
    classes.emplace_back(name);
  return classes;
}

std::string class_name(std::size_t number, const std::vector<std::string>& names) {
  return number < names.size() ? names[number] : std::to_string(number);
}

std::string class_name(std::size_t number, const DataFacts& data) {
  return class_name(number, data.class_names);
}

}  // namespace ddp::worker
