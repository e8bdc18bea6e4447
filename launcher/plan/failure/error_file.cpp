#include "launcher/plan/failure/error_file.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "common/text/contains.h"
#include "common/text/split.h"

namespace ddp::launcher {
namespace {

namespace json = boost::json;
constexpr std::size_t kQuoted = 4 << 10;

std::string text_of(const json::value* value) {
  if (value == nullptr || !value->is_string()) return "";
  return std::string(value->as_string());
}

std::string trimmed(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \n");
  return std::string(text.substr(0, end == std::string_view::npos ? 0 : end + 1));
}

const json::object* object_of(const json::value* value) {
  return value == nullptr ? nullptr : value->if_object();
}

}  // namespace

std::optional<WorkerError> read_error(std::string_view text) {
  if (text.empty()) return {};
  boost::system::error_code error;
  const json::value root = json::parse(text, error);
  const json::object* const outer = error ? nullptr : root.if_object();
  if (outer != nullptr) {
    const json::value* const message = outer->if_contains("message");
    if (const json::object* const inner = object_of(message)) {
      WorkerError result;
      result.message = text_of(inner->if_contains("message"));
      if (const json::object* const extra = object_of(inner->if_contains("extraInfo")))
        result.callstack = text_of(extra->if_contains("py_callstack"));
      if (!result.message.empty()) return result;
    } else if (const std::string flat = text_of(message); !flat.empty()) {
      return WorkerError{flat, ""};
    }
  }
  return WorkerError{std::string(text.substr(0, kQuoted)), ""};
}

std::string to_text(const WorkerError& error) {
  const std::string message = trimmed(error.message);
  const std::string callstack = trimmed(error.callstack);
  if (contains(callstack, message)) return callstack;
  return callstack.empty() ? message : message + "\n" + callstack;
}

std::vector<std::string> without_error(std::vector<std::string> lines, const WorkerError& error) {
  const std::string text = trimmed(error.message);
  const std::vector<std::string_view> message = split_lines(text);
  // ddp-worker prints the message after its name.
  const auto is_said = [](const std::string& line, std::string_view words) {
    return line == words || line == "ddp-worker: " + std::string(words);
  };
  const auto found =
      std::find_end(lines.begin(), lines.end(), message.begin(), message.end(), is_said);
  if (found == lines.end()) return lines;
  // Python prints indented frames below a head line; the head may no longer be among these lines.
  auto first = found;
  while (first != lines.begin() && std::prev(first)->starts_with("  "))
    --first;
  const bool has_head =
      first != lines.begin() && std::prev(first)->starts_with("Traceback (most recent call last)");
  if (has_head) --first;
  lines.erase(first, found + static_cast<std::ptrdiff_t>(message.size()));
  return lines;
}

std::string with_error_code(std::string_view text, int exit_code) {
  boost::system::error_code error;
  json::value root = json::parse(text, error);
  json::object* const outer = error ? nullptr : root.if_object();
  json::value* const message = outer == nullptr ? nullptr : outer->if_contains("message");
  json::object* const inner = message == nullptr ? nullptr : message->if_object();
  if (inner == nullptr) return std::string(text);
  (*inner)["errorCode"] = exit_code;
  return json::serialize(root);
}

}  // namespace ddp::launcher
