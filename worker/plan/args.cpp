#include "worker/plan/args.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/error.h"
#include "common/job/read_job_value.h"
#include "common/text/join_words.h"
#include "common/text/spelling.h"

namespace ddp::worker {

Args::Args(std::string path, TextMap texts, TextMap origins, std::string origin)
    : path_(std::move(path)),
      texts_(std::move(texts)),
      origins_(std::move(origins)),
      origin_(std::move(origin)),
      asked_(std::make_shared<std::vector<std::string>>()) {}

bool Args::has(const std::string& name) const {
  return find(name) != nullptr;
}

bool Args::has_map(const std::string& name) const {
  const auto first = texts_.lower_bound(name + ".");
  return first != texts_.end() && first->first.starts_with(name + ".");
}

std::int64_t Args::integer(const std::string& name,
                           std::int64_t min,
                           std::int64_t max,
                           std::optional<std::int64_t> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  JobKey key;
  key.type = JobKeyType::integer;
  key.min = static_cast<double>(min);
  key.max = static_cast<double>(max);
  return std::get<std::int64_t>(read(key, name));
}

double Args::real(const std::string& name,
                  double min,
                  double max,
                  std::optional<double> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  JobKey key;
  key.type = JobKeyType::real;
  key.min = min;
  key.max = max;
  return std::get<double>(read(key, name));
}

bool Args::flag(const std::string& name, std::optional<bool> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  JobKey key;
  key.type = JobKeyType::boolean;
  return std::get<bool>(read(key, name));
}

std::string Args::text(const std::string& name, std::optional<std::string> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  return std::get<std::string>(read({}, name));
}

std::string Args::where(const std::string& name) const {
  const std::string origin = origin_of(name);
  return (origin.empty() ? "" : origin + ": ") + path_ + "." + name;
}

void Args::require_all_read(const std::string& reader) const {
  const std::vector<std::string_view> known(asked_->begin(), asked_->end());
  std::vector<std::string> problems;
  for (const auto& [name, text] : texts_) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::optional<std::string> close = did_you_mean(name, known);
    problems.push_back(where(name) + ": " + reader + " does not take it" +
                       (close ? ", did you mean \"" + *close + "\"?" : ".") +
                       " Allowed: " + (known.empty() ? "none" : join_words(known)) + ".");
  }
  if (!problems.empty()) throw UsageError(problems);
}

const std::string* Args::find(const std::string& name) const {
  if (std::ranges::find(*asked_, name) == asked_->end()) asked_->push_back(name);
  const auto found = texts_.find(name);
  return found == texts_.end() ? nullptr : &found->second;
}

JobValue Args::read(const JobKey& key, const std::string& name) const {
  const std::string* const given = find(name);
  if (given == nullptr) {
    throw UsageError(where(name) +
                     ": is missing, and has no default. Give it in the job file, as " + path_ +
                     ": {" + name + ": ...}.");
  }
  const std::string path = path_ + "." + name;
  JobKey named = key;
  named.path = path;
  return parse_value(named, *given, origin_of(name));
}

std::string Args::origin_of(const std::string& name) const {
  const auto found = origins_.find(name);
  if (found != origins_.end()) return found->second;
  return origins_.empty() ? origin_ : "";
}

}  // namespace ddp::worker
