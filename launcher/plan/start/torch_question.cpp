#include "launcher/plan/start/torch_question.h"

namespace ddp::launcher {

TorchQuestion torch_question(std::string_view word, bool by_python, bool has_nvidia, bool has_amd) {
  if (word == "xpu") {
    if (by_python) return {.kind = "xpu"};
    return {.problem = "only the torch of a Python script can count them"};
  }
  const bool is_for_gpus = word == "gpu" || word == "auto";
  if (is_for_gpus && by_python && has_amd && !has_nvidia) return {.kind = "cuda"};
  return {};
}

}  // namespace ddp::launcher
