// Whether the torch of a job's Python has to count devices for --nproc-per-node: it knows kinds
// that this program does not. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddp::launcher {

struct TorchQuestion {
  std::string kind = {};     // "cuda", by which torch means AMD's GPUs, too, or "xpu"; empty: none
  std::string problem = {};  // why it cannot be asked, though `word` wants it
};

/// `word`: that of --nproc-per-node, empty for a number. `by_python`: the program is a script or a
/// module. `has_nvidia`, `has_amd`: the node has such devices, or that driver.
TorchQuestion torch_question(std::string_view word, bool by_python, bool has_nvidia, bool has_amd);

}  // namespace ddp::launcher
