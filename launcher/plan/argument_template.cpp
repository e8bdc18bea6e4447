#include "launcher/plan/argument_template.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kName = "local_rank";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string fill_template(std::string_view text, int local_rank) {
  const std::string number = std::to_string(local_rank);
  const std::string braced = "${" + std::string(kName) + "}";
  std::string result;
  while (!text.empty()) {
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
    } else if (text.starts_with(braced)) {
      result += number;
      text.remove_prefix(braced.size());
    } else if (text[0] == '$' && text.substr(1).starts_with(kName) &&
               (text.size() == kName.size() + 1 || !is_name_char(text[kName.size() + 1]))) {
      result += number;
      text.remove_prefix(kName.size() + 1);
    } else {
      result += text[0];
      text.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace ddp::launcher
