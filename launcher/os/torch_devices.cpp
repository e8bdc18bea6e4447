#include "launcher/os/torch_devices.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/node/helper_process.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kPatience(60);  // an import of torch over a busy network disk

}  // namespace

TorchDevices ask_torch(const std::string& python,
                       const std::string& kind,
                       const std::map<std::string, std::string>& variables) {
  constexpr std::string_view kMark = "devices: ";  // an import may print, too
  // Trap: Python would take modules from the current directory, and run them.
  const std::string code =
      "import sys; sys.path[:] = [p for p in sys.path if p]; import torch; print(\"\\n" +
      std::string(kMark) + "%d\" % torch." + kind + ".device_count())";
  std::vector<std::string> words{"/usr/bin/env"};
  for (const auto& [name, value] : variables)
    words.push_back(name + "=" + value);
  words.insert(words.end(), {python, "-c", code});
  const HelperAnswer answer = ask_command(std::move(words), kPatience);
  std::optional<int> count;
  for (const std::string_view line : split(answer.text, '\n'))
    if (line.starts_with(kMark)) count = parse_whole<int>(line.substr(kMark.size()), 0);
  const std::string question =
      python + " -c 'import torch; print(torch." + kind + ".device_count())'";
  if (count && *count > 0) return {.count = *count};
  if (count) return {.problem = "the torch of " + python + " sees none: " + question + " says 0"};
  if (answer.is_whole) return {.problem = python + " cannot tell. Try: " + question};
  return {.problem = python + " did not answer within a minute. Try: " + question};
}

}  // namespace ddp::launcher
