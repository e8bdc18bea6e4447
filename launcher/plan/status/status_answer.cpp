#include "launcher/plan/status/status_answer.h"

#include <fmt/format.h>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "common/report/html.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 8;
constexpr std::size_t kLongestMember = 4096;  // a path
constexpr std::size_t kLongestLine = 16 << 10;
constexpr double kLongestUptime = 1e10;  // seconds

/// Reads the members of one object, and remembers whether one was wrong.
class Members {
 public:
  explicit Members(const json::value& value) : object_(value.if_object()) {
    is_good_ = object_ != nullptr;
  }

  [[nodiscard]] bool is_good() const { return is_good_; }

  void text(const char* name, std::string& into) {
    if (find(name) == nullptr) is_good_ = false;
    maybe_text(name, into);
  }
  void maybe_text(const char* name, std::string& into) {
    const json::value* const value = find(name);
    if (value == nullptr || value->is_null()) return;
    if (value->is_object() || value->is_array()) is_good_ = false;
    if (!is_good_) return;
    const json::string* const string = value->if_string();
    into = string != nullptr ? plain_line(std::string_view(*string), kLongestMember)
                             : json::serialize(*value);
  }
  /// Reads a loss as it is shown everywhere.
  void maybe_loss(const char* name, std::string& into) {
    const json::value* const value = find(name);
    const json::value* const is_finite = find("loss_is_finite");
    if (is_finite != nullptr && *is_finite == false) into = "not finite";
    if (value == nullptr || value->is_null()) return;
    if (!value->is_number()) is_good_ = false;
    if (is_good_) into = metric_number("loss", value->to_number<double>());
  }
  void number(const char* name, double& into) {
    const json::value* const value = find(name);
    boost::system::error_code error;
    if (value != nullptr) into = value->to_number<double>(error);
    const bool is_sane = std::isfinite(into) && std::abs(into) < kLongestUptime;
    if (value == nullptr || error || !is_sane) is_good_ = false;
  }
  void maybe_count(const char* name, std::uint64_t& into) {
    const json::value* const value = find(name);
    if (value == nullptr) return;
    const std::int64_t* const number = value->if_int64();
    if (number == nullptr || *number < 0) is_good_ = false;
    if (is_good_) into = static_cast<std::uint64_t>(*number);
  }
  void maybe_lines(const char* name, std::vector<std::string>& into) {
    for (const json::value& line : list(name)) {
      const json::string* const string = line.if_string();
      if (string == nullptr) is_good_ = false;
      if (!is_good_) return;
      append_clean(into.emplace_back(), std::string_view(*string).substr(0, kLongestLine));
    }
  }
  /// The array of that name; empty: there is none.
  const json::array& list(const char* name) {
    static const json::array kNone;
    const json::value* const value = find(name);
    if (value != nullptr && !value->is_array()) is_good_ = false;
    return value != nullptr && value->is_array() ? value->get_array() : kNone;
  }
  /// The object of that name; null: there is none.
  const json::value* object(const char* name) {
    const json::value* const value = find(name);
    if (value != nullptr && !value->is_object()) is_good_ = false;
    return is_good_ ? value : nullptr;
  }
  [[nodiscard]] bool has(const char* name) const { return find(name) != nullptr; }

 private:
  [[nodiscard]] const json::value* find(const char* name) const {
    return object_ == nullptr ? nullptr : object_->if_contains(name);
  }

  const json::object* object_;
  bool is_good_ = true;
};

std::optional<WorkerAnswer> read_worker(const json::value& value) {
  WorkerAnswer worker;
  Members members(value);
  members.text("rank", worker.rank);
  members.text("pid", worker.pid);
  members.maybe_text("state", worker.state);
  members.maybe_text("ending", worker.ending);
  members.maybe_text("phase", worker.phase);
  members.maybe_text("epoch", worker.epoch);
  members.maybe_text("step", worker.step);
  members.maybe_text("steps_total", worker.steps_total);
  members.maybe_loss("loss", worker.loss);
  members.maybe_text("checkpoint_step", worker.checkpoint_step);
  members.maybe_lines("stdout", worker.output.tail);
  members.maybe_lines("stderr", worker.errors.tail);
  members.maybe_count("stdout_lines", worker.output.lines);
  members.maybe_count("stderr_lines", worker.errors.lines);
  members.maybe_text("stdout_file", worker.output.file);
  members.maybe_text("stderr_file", worker.errors.file);
  if (!members.is_good()) return std::nullopt;
  return worker;
}

}  // namespace

std::optional<JobAnswer> read_answer(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  const json::value root = json::parse(text, error, {}, options);
  if (error) return std::nullopt;
  JobAnswer job;
  Members members(root);
  members.text("run", job.run_id);
  members.text("rdzv_id", job.user_run_id);
  members.text("program", job.program);
  members.text("pid", job.pid);
  members.text("run_dir", job.run_dir);
  members.text("endpoint", job.endpoint);
  members.text("round", job.round);
  members.number("uptime", job.uptime);
  if (const json::value* const slowest = members.object("slowest_rank")) {
    Members about(*slowest);
    about.text("text", job.slowest);
    if (!about.is_good()) return std::nullopt;
  }
  for (const json::value& value : members.list("workers")) {
    std::optional<WorkerAnswer> worker = read_worker(value);
    if (!worker) return std::nullopt;
    job.workers.push_back(std::move(*worker));
  }
  if (!members.is_good() || !members.has("workers")) return std::nullopt;
  return job;
}

std::string headline(const JobAnswer& job) {
  return fmt::format("{}  pid {}  {}  round {}  up {:.0f} s  {}{}",
                     job.run_id.substr(0, 8),
                     job.pid,
                     job.program,
                     job.round,
                     job.uptime,
                     job.endpoint,
                     job.run_dir.empty() ? "" : "  " + job.run_dir);
}

std::string describe(const JobAnswer& job) {
  std::string text = headline(job) + "\n";
  for (const WorkerAnswer& worker : job.workers) {
    text += "  rank " + worker.rank + "  pid " + worker.pid + "  ";
    text += worker.ending.empty() ? "state " + worker.state : worker.ending;
    if (!worker.phase.empty()) {
      text += "  " + worker.phase;
      const auto add = [&text](const char* name, const std::string& value) {
        if (!value.empty()) text.append("  ").append(name).append(" ").append(value);
      };
      add("epoch", worker.epoch);
      const bool has_total = !worker.steps_total.empty();
      if (has_total || worker.step != "0")
        add("step", has_total ? worker.step + "/" + worker.steps_total : worker.step);
      add("loss", worker.loss);
      add("checkpoint", worker.checkpoint_step);
    }
    text += "\n";
  }
  if (!job.slowest.empty()) text += "  " + job.slowest + "\n";
  return text;
}

std::string describe_lines(const JobAnswer& job, const std::string& rank) {
  std::string text;
  for (const WorkerAnswer& worker : job.workers) {
    if (!rank.empty() && worker.rank != rank) continue;
    for (const std::string& line : worker.output.tail)
      text += "[" + worker.rank + " stdout] " + line + "\n";
    for (const std::string& line : worker.errors.tail)
      text += "[" + worker.rank + " stderr] " + line + "\n";
  }
  return text;
}

}  // namespace ddp::launcher
