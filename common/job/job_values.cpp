#include "common/job/job_values.h"

#include <stdexcept>

namespace ddp {
namespace {

template <typename Type>
const Type& get(const JobValues& job, std::string_view path) {
  const Type* const value = std::get_if<Type>(&job.setting(path).value);
  if (value == nullptr) throw std::logic_error("job key has another type: " + std::string(path));
  return *value;
}

}  // namespace

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
bool JobValues::flag(std::string_view path) const {
  return get<bool>(*this, path);
}
std::int64_t JobValues::integer(std::string_view path) const {
  return get<std::int64_t>(*this, path);
}
double JobValues::real(std::string_view path) const {
  return get<double>(*this, path);
}
const std::string& JobValues::text(std::string_view path) const {
  return get<std::string>(*this, path);
}
std::chrono::milliseconds JobValues::duration(std::string_view path) const {
  return get<std::chrono::milliseconds>(*this, path);
}
const TextMap& JobValues::text_map(std::string_view path) const {
  return get<TextMap>(*this, path);
}
const std::vector<std::int64_t>& JobValues::integers(std::string_view path) const {
  return get<std::vector<std::int64_t>>(*this, path);
}
const std::vector<std::string>& JobValues::texts(std::string_view path) const {
  return get<std::vector<std::string>>(*this, path);
}
const std::vector<JobPart>& JobValues::parts(std::string_view path) const {
  return get<std::vector<JobPart>>(*this, path);
}
std::optional<std::int64_t> JobValues::maybe_integer(std::string_view path) const {
  if (is_null(path)) return {};
  return integer(path);
}
std::optional<double> JobValues::maybe_real(std::string_view path) const {
  if (is_null(path)) return {};
  return real(path);
}
std::optional<bool> JobValues::maybe_flag(std::string_view path) const {
  if (is_null(path)) return {};
  return flag(path);
}
std::optional<std::string> JobValues::maybe_text(std::string_view path) const {
  if (is_null(path)) return {};
  return text(path);
}

}  // namespace ddp
