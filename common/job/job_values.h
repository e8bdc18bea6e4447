// A checked job: every key has a value of its type, and the origin of that value.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddp {

using TextMap = std::map<std::string, std::string>;

/// One entry of a named_list, as `flip` or `{crop: {padding: 4}}`.
struct NamedEntry {
  std::string name;
  TextMap args;

  bool operator==(const NamedEntry&) const = default;
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
                              std::vector<NamedEntry>>;

class JobValues {
  using Path = std::string_view;
  using Duration = std::chrono::milliseconds;

 public:
  struct Setting {
    JobValue value;
    std::string origin;  // "default", "job.yaml:3:8", or the origin of an override
    // Origins of a TextMap's entries by name; of parts and their arguments as "0" and "0.padding".
    TextMap origins{};
  };

  /// Accessors by path. Errors: std::logic_error for a path or type that the table does not have.
  [[nodiscard]] bool is_null(Path path) const;
  [[nodiscard]] bool flag(Path path) const { return get<bool>(path); }
  [[nodiscard]] std::int64_t integer(Path path) const { return get<std::int64_t>(path); }
  [[nodiscard]] double real(Path path) const { return get<double>(path); }
  [[nodiscard]] const std::string& text(Path path) const { return get<std::string>(path); }
  [[nodiscard]] Duration duration(Path path) const { return get<Duration>(path); }
  [[nodiscard]] const TextMap& text_map(Path path) const { return get<TextMap>(path); }
  [[nodiscard]] const std::vector<std::int64_t>& integers(Path path) const {
    return get<std::vector<std::int64_t>>(path);
  }
  [[nodiscard]] const std::vector<std::string>& texts(Path path) const {
    return get<std::vector<std::string>>(path);
  }
  [[nodiscard]] const std::vector<NamedEntry>& named_list(Path path) const {
    return get<std::vector<NamedEntry>>(path);
  }
  [[nodiscard]] auto maybe_integer(Path path) const { return maybe<std::int64_t>(path); }
  [[nodiscard]] auto maybe_real(Path path) const { return maybe<double>(path); }
  [[nodiscard]] auto maybe_flag(Path path) const { return maybe<bool>(path); }
  [[nodiscard]] auto maybe_text(Path path) const { return maybe<std::string>(path); }
  [[nodiscard]] auto maybe_duration(Path path) const { return maybe<Duration>(path); }
  [[nodiscard]] const Setting& setting(Path path) const;

  void set(Path path, Setting setting);

 private:
  template <typename Type>
  [[nodiscard]] const Type& get(Path path) const {
    const Type* const value = std::get_if<Type>(&setting(path).value);
    if (value == nullptr) throw std::logic_error("job key has another type: " + std::string(path));
    return *value;
  }
  /// Nothing: null.
  template <typename Type>
  [[nodiscard]] std::optional<Type> maybe(Path path) const {
    return is_null(path) ? std::nullopt : std::optional<Type>(get<Type>(path));
  }

  std::map<std::string, Setting, std::less<>> settings_;
};

}  // namespace ddp
