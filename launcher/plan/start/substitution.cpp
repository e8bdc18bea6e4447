#include "launcher/plan/start/substitution.h"

namespace ddp::launcher {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The name after a '$', and the length of its whole spelling; 0: no name.
struct Name {
  std::string_view text;
  std::size_t length = 0;
};

Name name_at(std::string_view text) {
  const std::size_t begin = text.starts_with("${") ? 2 : 1;
  std::size_t end = begin;
  while (end < text.size() && is_name_char(text[end]))
    ++end;
  const std::string_view name = text.substr(begin, end - begin);
  if (begin == 1) return {name, end};
  if (end == text.size() || text[end] != '}') return {};
  return {name, end + 1};
}

}  // namespace

std::string substitute(std::string_view text, const SubstitutionValues& values) {
  std::string result;
  while (!text.empty()) {
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    const Name name = text[0] == '$' ? name_at(text) : Name{};
    const auto value = values.find(name.text);
    if (name.length != 0 && value != values.end()) {
      result += value->second;
      text.remove_prefix(name.length);
    } else {
      result += text[0];
      text.remove_prefix(1);
    }
  }
  return result;
}

std::string substitute(std::string_view text, int local_rank) {
  return substitute(text, SubstitutionValues{{"local_rank", std::to_string(local_rank)}});
}

}  // namespace ddp::launcher
