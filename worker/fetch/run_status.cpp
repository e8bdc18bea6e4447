#include "worker/fetch/run_status.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>

#include "common/text/json_text.h"
#include "common/text/time_text.h"
#include "common/text/units.h"

namespace ddp::worker {
namespace {

namespace json = boost::json;

std::int64_t whole_number(const json::object& line, std::string_view name) {
  const json::value* const value = line.if_contains(name);
  boost::system::error_code error;
  const auto number = value == nullptr ? 0 : value->to_number<std::int64_t>(error);
  return error ? 0 : std::max<std::int64_t>(number, 0);
}

/// RFC 3339, as Kubernetes has it.
std::string timestamp(std::chrono::system_clock::time_point time) {
  return utc_text(std::chrono::system_clock::to_time_t(time), "%Y-%m-%dT%H:%M:%SZ");
}

}  // namespace

void RunStatus::note(std::string_view text, Time now) {
  boost::system::error_code error;
  const json::value root = json::parse(text, error);
  const json::object* const line = error ? nullptr : root.if_object();
  const json::value* const kind = line == nullptr ? nullptr : line->if_contains("kind");
  if (kind == nullptr || !kind->is_string()) return;
  if (*kind == "end") {
    const json::value* const state = line->if_contains("state");
    has_ended_ = true;
    has_finished_ = state != nullptr && *state == "finished";
    return;
  }
  newest_ = {whole_number(*line, "step"), now};
  if (*kind == "job") {
    steps_ = whole_number(*line, "steps");
    first_.reset();  // it may have begun again at an earlier step
    return;
  }
  if (!first_ && *kind == "step") first_ = newest_;
  for (const auto& [name, value] : *line) {
    boost::system::error_code no_number;
    const double number = value.to_number<double>(no_number);
    const bool is_told = name != "step" && !no_number && std::isfinite(number);
    if (!is_told || (metrics_.size() >= kMostMetrics && !metrics_.contains(name))) continue;
    metrics_.insert_or_assign(std::string(name), number);
  }
}

/// At the speed since the first step that was told.
std::optional<std::int64_t> RunStatus::seconds_left() const {
  if (has_finished_) return 0;
  if (has_ended_ || !first_ || newest_.step <= first_->step || steps_ <= newest_.step) return {};
  const std::chrono::duration<double> time = newest_.at - first_->at;
  const auto done = static_cast<double>(newest_.step - first_->step);
  const auto left = static_cast<double>(steps_ - newest_.step);
  constexpr double kMost = 1e9;  // 31 years
  return std::llround(std::min(time.count() / done * left, kMost));
}

std::optional<std::string> RunStatus::body(std::chrono::system_clock::time_point now) const {
  if (steps_ == 0) return std::nullopt;
  json::object status;
  // 100 is for an end: what follows the last step may still fail.
  const std::int64_t percent =
      std::min<std::int64_t>(static_cast<std::int64_t>(100.0 * static_cast<double>(newest_.step) /
                                                       static_cast<double>(steps_)),
                             99);
  status["progressPercentage"] = has_finished_ ? 100 : percent;
  if (const std::optional<std::int64_t> left = seconds_left())
    status["estimatedRemainingSeconds"] = *left;
  json::array metrics;
  for (const auto& [name, number] : metrics_)
    metrics.push_back(json::object{{"name", name}, {"value", format_number(number)}});
  if (!metrics.empty()) status["metrics"] = std::move(metrics);
  status["lastUpdatedTime"] = timestamp(now);
  return json_text(json::object{{"trainerStatus", std::move(status)}});
}

}  // namespace ddp::worker
