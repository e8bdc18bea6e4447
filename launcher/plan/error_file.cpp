#include "launcher/plan/error_file.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace ddp::launcher {
namespace {

namespace json = boost::json;
constexpr std::size_t kQuoted = 4 << 10;

std::string text_of(const json::value* value) {
  if (value == nullptr || !value->is_string()) return "";
  return std::string(value->as_string());
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
      if (const json::object* const extra = object_of(inner->if_contains("extraInfo"))) {
        result.callstack = text_of(extra->if_contains("py_callstack"));
      }
      if (!result.message.empty()) return result;
    } else if (const std::string flat = text_of(message); !flat.empty()) {
      return WorkerError{flat, ""};
    }
  }
  return WorkerError{std::string(text.substr(0, kQuoted)), ""};
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
