#include "common/node/environment.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace ddp {

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t split = text.find('=');
    if (split == std::string_view::npos) continue;
    environment.emplace(text.substr(0, split), text.substr(split + 1));
  }
  return environment;
}

void hide_variable(const std::string& name) {
  const std::string start = name + "=";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with(start)) std::fill_n(*entry, text.size(), '\0');
  }
}

std::optional<std::string> find_variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return {};
  return found->second;
}

}  // namespace ddp
