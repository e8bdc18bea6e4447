// Loads the initial weights of a model from a file of another training, ours or Python's.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "worker/model/named_tensor.h"
#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// What load_weights() did with the tensors of a file.
struct LoadReport {
  std::string file;
  std::size_t loaded = 0;
  std::size_t wanted = 0;                // tensors of the model
  std::vector<std::string> prefixes;     // removed from names: "module."
  std::vector<std::string> conversions;  // "BF16 to F32"
  std::vector<std::string> different;    // same name, other shape or type: a text with both
  std::vector<std::string> missing;      // only in the model: unchanged
  std::vector<std::string> unexpected;   // only in the file: skipped
};

/// Copies the tensors of a file (safetensors or torch.save) into `state` by name. If the model does
/// not have a name, the prefixes `module.` (DistributedDataParallel) and `_orig_mod.`
/// (torch.compile) are removed from it, and `model.` and `net.` if it has the rest. Floating-point
/// types are converted, rounded to nearest; other types must be equal. If a file has no
/// `num_batches_tracked`, it stays 0, as in torch. A second name of a tensor that fits (tied
/// weights of Python) is no difference. With `strict`, any difference is an error, and nothing is
/// copied; else it is in the report. Without `trust` the file must belong to us or to root. Errors:
/// UsageError, also when no tensor fits; SystemError (reading).
LoadReport load_weights(const std::filesystem::path& path,
                        std::vector<NamedTensor>& state,
                        bool strict,
                        bool trust = false);

/// The same with tensors that were read already; `file` names their source in messages.
LoadReport load_weights(const std::vector<TensorView>& tensors,
                        const std::string& file,
                        std::vector<NamedTensor>& state,
                        bool strict);

/// The model's name for a tensor that is called `saved` in a file: without prefixes, unless the
/// model has them, too.
std::string model_name(const std::string& saved, const std::set<std::string>& wanted);

/// For the console: one line, and one more for each non-empty list.
std::string to_text(const LoadReport& report);

}  // namespace ddp::worker
