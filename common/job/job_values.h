// A checked job: every key has a value of its type, and knows where it came from.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddp {

using TextMap = std::map<std::string, std::string>;

/// One entry of a list of parts, as `flip` or `{crop: {padding: 4}}`.
struct JobPart {
  std::string name;
  TextMap args;

  bool operator==(const JobPart&) const = default;
};

using JobValue = std::variant<std::monostate,  // null
                              bool,
                              std::int64_t,  // integer and bytes
                              double,
                              std::string,
                              std::chrono::milliseconds,
                              TextMap,
                              std::vector<std::int64_t>,
                              std::vector<std::string>,
                              std::vector<JobPart>>;

class JobValues {
 public:
  struct Setting {
    JobValue value;
    std::string origin;  // "default", "job.yaml:3:8", or the origin of an override
    // Of a TextMap's entries, by their names; of parts and their arguments, as "0" and "0.padding".
    TextMap origins{};
  };

  /// Accessors by path. Errors: std::logic_error for a path or type that the table does not have.
  [[nodiscard]] bool is_null(std::string_view path) const;
  [[nodiscard]] bool flag(std::string_view path) const;
  [[nodiscard]] std::int64_t integer(std::string_view path) const;
  [[nodiscard]] double real(std::string_view path) const;
  [[nodiscard]] const std::string& text(std::string_view path) const;
  [[nodiscard]] std::chrono::milliseconds duration(std::string_view path) const;
  [[nodiscard]] const TextMap& text_map(std::string_view path) const;
  [[nodiscard]] const std::vector<std::int64_t>& integers(std::string_view path) const;
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view path) const;
  [[nodiscard]] const std::vector<JobPart>& parts(std::string_view path) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(std::string_view path) const;
  [[nodiscard]] std::optional<double> maybe_real(std::string_view path) const;
  [[nodiscard]] std::optional<bool> maybe_flag(std::string_view path) const;
  [[nodiscard]] std::optional<std::string> maybe_text(std::string_view path) const;
  [[nodiscard]] const Setting& setting(std::string_view path) const;

  void set(std::string_view path, Setting setting);

 private:
  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace ddp
