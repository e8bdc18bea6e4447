// Weights for the start of a model: from a file of another training, ours or Python's.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "worker/model/named_tensor.h"
#include "worker/save/format/safetensors.h"

namespace ddp::worker {

/// What happened to the tensors of a file.
struct LoadReport {
  std::string file;
  std::size_t loaded = 0;
  std::size_t wanted = 0;                // tensors of the model
  std::vector<std::string> prefixes;     // taken off names: "module."
  std::vector<std::string> conversions;  // "BF16 to F32"
  std::vector<std::string> different;    // same name, another shape or kind of number: both sides
  std::vector<std::string> missing;      // in the model alone: left as they are
  std::vector<std::string> unexpected;   // in the file alone: skipped
};

/// Copies the tensors of a file (safetensors or torch.save) into `state` by name. A name that the
/// model does not have is tried without its prefixes `module.` (DistributedDataParallel) and
/// `_orig_mod.` (torch.compile). Floating-point numbers of another width are converted, rounded to
/// the nearest; other types must be equal. If a file has no `num_batches_tracked`, it stays 0, as
/// in torch. With `strict`, anything that does not fit is an error, and nothing has been copied;
/// else it is in the report. Without `trust` the file must belong to us or to root. Errors:
/// UsageError, also when nothing at all fits; SystemError (reading).
LoadReport load_weights(const std::filesystem::path& path,
                        std::vector<NamedTensor>& state,
                        bool strict,
                        bool trust = false);

/// The same with tensors that are read already; `file` names their source in messages.
LoadReport load_weights(const std::vector<TensorView>& tensors,
                        const std::string& file,
                        std::vector<NamedTensor>& state,
                        bool strict);

/// The name of a tensor in the model: without prefixes, if the model does not have it with them.
std::string model_name(const std::string& saved, const std::set<std::string>& wanted);

/// For the console: one line, and one per kind of tensor that was not simply copied.
std::string to_text(const LoadReport& report);

}  // namespace ddp::worker
