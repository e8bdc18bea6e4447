#include "common/job/job_values.h"

#include <stdexcept>

namespace ddp {
const JobValues::Setting& JobValues::setting(std::string_view path) const {
  const auto found = settings_.find(path);
  if (found == settings_.end()) throw std::logic_error("no such job key: " + std::string(path));
  return found->second;
}

void JobValues::set(std::string_view path, Setting setting) {
  settings_.insert_or_assign(std::string(path), std::move(setting));
}

bool JobValues::is_null(std::string_view path) const {
  return std::holds_alternative<std::monostate>(setting(path).value);
}

}  // namespace ddp
