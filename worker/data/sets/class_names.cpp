#include "worker/data/sets/class_names.h"

#include <algorithm>

#include "worker/data/sets/image_set.h"

namespace ddp::worker {

std::vector<std::string> published_classes(std::string_view set) {
  set = set.substr(0, set.find(' '));
  const auto known = std::ranges::find(built_in_sets(), set, &BuiltInSet::name);
  std::vector<std::string> classes;
  if (known == built_in_sets().end()) return classes;
  for (std::string_view rest = known->classes; !rest.empty();) {
    const std::size_t end = std::min(rest.find(known->mark), rest.size());
    classes.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return classes;
}

std::string class_name(std::size_t number, const std::vector<std::string>& names) {
  return number < names.size() ? names[number] : std::to_string(number);
}

std::string class_name(std::size_t number, const DataFacts& data) {
  return class_name(number, data.class_names);
}

}  // namespace ddp::worker
