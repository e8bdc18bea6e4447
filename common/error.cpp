#include "common/error.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <span>
#include <sstream>

#include "common/text/one_line.h"

namespace ddp {
namespace {

std::string join_lines(const std::vector<std::string>& messages) {
  std::string text;
  const std::size_t shown = std::min(messages.size(), kShownProblems);
  for (const std::string& message : std::span(messages).first(shown)) {
    if (!text.empty()) text += '\n';
    text += message;
  }
  const std::size_t more = messages.size() - shown;
  if (more > 0)
    text += "\nand " + std::to_string(more) + " more like " + (more == 1 ? "this" : "these");
  return text;
}

}  // namespace

UsageError::UsageError(const std::vector<std::string>& messages)
    : Error(join_lines(messages), exit_code::kUsage) {}

std::string system_message(const std::string& call, const std::string& object, int error_number) {
  return call + ", " + object + ": " + std::strerror(error_number);
}

int print_error(const std::string& program, const std::exception& error) {
  // One write, so that no line of another process on the terminal comes between.
  std::string text;
  std::istringstream lines(error.what());
  for (std::string line; std::getline(lines, line);)
    text += program + ": " + one_line(line, std::string::npos) + '\n';  // may quote any bytes
  if (text.empty()) text = program + ": unknown error\n";
  std::cerr << text << std::flush;
  const Error* const ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr ? ours->code() : exit_code::kInternal;
}

}  // namespace ddp
