// The free arguments of a part of the job (data.args, task.args, model.args, loss.args,
// optimizer.args): names and texts that only the part's own factory understands. The factory asks
// for each by name, type and range; arguments that it does not ask for are refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/job/job_keys.h"
#include "common/job/job_values.h"

namespace ddp::worker {

/// Copies share the list of what has been asked for.
/// Errors of the reading functions: UsageError with the place in the job file, the value and what
/// is expected; also for a missing argument without a default (`otherwise`).
class Args {
 public:
  /// No arguments.
  Args() : Args("args", {}) {}
  /// `path` is the key in the job: "model.args". `origins` says by name where the arguments were
  /// given, `origin` where all of them were.
  Args(std::string path, TextMap texts, TextMap origins = {}, std::string origin = "");

  [[nodiscard]] bool has(const std::string& name) const;
  /// Whether there is an argument in the map of arguments `name`: "outputs" in {outputs: {main:
  /// 1}}, whose argument is read as "outputs.main".
  [[nodiscard]] bool has_map(const std::string& name) const;

  /// A number from `min` to `max`.
  [[nodiscard]] std::int64_t integer(const std::string& name,
                                     std::int64_t min,
                                     std::int64_t max,
                                     std::optional<std::int64_t> otherwise = {}) const;
  [[nodiscard]] double real(const std::string& name,
                            double min,
                            double max,
                            std::optional<double> otherwise = {}) const;
  /// `true` or `false`.
  [[nodiscard]] bool flag(const std::string& name, std::optional<bool> otherwise = {}) const;
  [[nodiscard]] std::string text(const std::string& name,
                                 std::optional<std::string> otherwise = {}) const;

  /// "job.yaml:4:23: model.args.units", to begin an error with.
  [[nodiscard]] std::string where(const std::string& name) const;

  /// Call it after the factory. `reader` is the factory's name in the job.
  void require_all_read(const std::string& reader) const;

 private:
  [[nodiscard]] const std::string* find(const std::string& name) const;
  [[nodiscard]] JobValue read(const JobKey& key, const std::string& name) const;
  [[nodiscard]] std::string origin_of(const std::string& name) const;

  std::string path_;
  TextMap texts_;
  TextMap origins_;  // where the texts were given, if that is known one by one
  std::string origin_;
  std::shared_ptr<std::vector<std::string>> asked_;  // each name once
};

}  // namespace ddp::worker
