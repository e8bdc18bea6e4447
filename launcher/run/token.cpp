#include "launcher/run/token.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>

#include "common/error.h"
#include "common/files/input_file.h"

namespace ddp::launcher {
namespace {

constexpr const char* kMakeOne = " Make one by: openssl rand -hex 32.";

Secret read_private(const std::string& path, const std::string& origin) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) {
    throw UsageError(origin + ": cannot read the token from " + path + ": " + why_not + "." +
                     kMakeOne);
  }
  if (!file->is_private()) {
    throw UsageError(origin + ": others can read the token in " + path +
                     ", or it is not yours. Type chmod 600 " + path +
                     ", or give the token by DDP_TOKEN.");
  }
  std::string text(kLongestToken + 1, '\0');
  text.resize(file->read(std::as_writable_bytes(std::span(text))));
  return text;
}

/// `text` without blanks at its ends, checked.
Secret as_token(std::string_view text, const std::string& origin) {
  const auto is_blank = [](unsigned char c) { return std::isgraph(c) == 0; };
  while (!text.empty() && is_blank(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && is_blank(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  if (std::ranges::any_of(text, is_blank)) {
    throw UsageError(origin +
                     ": the token has a blank or a byte that is not an ASCII character in it." +
                     kMakeOne);
  }
  if (text.size() < kShortestToken || text.size() > kLongestToken) {
    throw UsageError(origin + ": the token has " +
                     (text.size() > kLongestToken ? "too many" : std::to_string(text.size())) +
                     " characters, of " + std::to_string(kShortestToken) + " to " +
                     std::to_string(kLongestToken) + "." + kMakeOne);
  }
  return std::string(text);
}

}  // namespace

Secret take_token(Environment& environment) {
  constexpr const char* kName = "DDP_TOKEN";
  hide_variable(kName);
  auto entry = environment.extract(kName);
  return entry ? Secret(std::move(entry.mapped())) : Secret();
}

Secret find_token(const Options& options, const JobValues& job, const Secret& variable) {
  constexpr std::string_view kKey = "launch.token_file";
  const bool is_flag =
      std::ranges::any_of(options.flags, [&](const auto& flag) { return flag.path == kKey; });
  const std::optional<std::string> path = job.maybe_text(std::string(kKey));
  if (!variable.empty() && !is_flag) return as_token(variable.text(), "DDP_TOKEN");
  if (!path) return {};
  const std::string& origin = job.setting(std::string(kKey)).origin;
  return as_token(read_private(*path, origin).text(), origin);
}

std::string describe_missing_token() {
  return "this job of several nodes has no token: anyone who can reach node 0's port can join it, "
         "and "
         "anyone who is on the way can alter what its agents tell each other. Give all nodes the "
         "same "
         "--token-file, or DDP_TOKEN.";
}

}  // namespace ddp::launcher
