#include "launcher/os/torch_devices.h"

#include <chrono>
#include <optional>

#include "common/node/helper_process.h"
#include "common/text/parse_whole.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kPatience(60);  // an import of torch over a busy network disk

}  // namespace

TorchDevices ask_torch(const std::string& python,
                       const std::string& kind,
                       const std::map<std::string, std::string>& variables) {
  const std::string count_them = "torch." + kind + ".device_count()";
  const PythonAnswer answer =
      ask_python(python,
                 {.statements = "import torch", .mark = "devices: ", .expression = count_them},
                 kPatience,
                 variables);
  const std::optional<int> count = parse_whole<int>(answer.text.value_or(""), 0);
  const std::string question = python + " -c 'import torch; print(" + count_them + ")'";
  if (count && *count > 0) return {.count = *count};
  if (count) return {.problem = "the torch of " + python + " sees none: " + question + " says 0"};
  if (answer.is_whole) return {.problem = python + " cannot tell. Try: " + question};
  return {.problem = python + " did not answer within a minute. Try: " + question};
}

}  // namespace ddp::launcher
