#include "worker/train/verbs/export.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/text/units.h"
#include "worker/model/state.h"
#include "worker/python/python_model.h"
#include "worker/save/checkpoint/checkpoint_path.h"
#include "worker/save/checkpoint/model_tensors.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/save/format/torch_file.h"
#include "worker/save/output_file.h"
#include "worker/train/registry.h"

namespace ddp::worker {
namespace {

/// Replaces `path` by what `fill` writes. Errors: UsageError.
void write(const std::filesystem::path& path, const std::function<void(OutputFile)>& fill) try {
  replace_with(path, fill);
} catch (const SystemError& error) {
  throw UsageError("cannot write " + path.string() + ": " + error.what() +
                   ". Give another path behind -o.");
}

bool is_exported(const std::filesystem::path& path) {
  return path.extension() == ".pt2";
}

/// The model of a file from Python, with the values of `tensors`. Errors: UsageError.
PythonFile python_file_with(const std::filesystem::path& path,
                            std::vector<NamedTensor> tensors,
                            bool trust) {
  PythonFile file = read_python_file(path, is_exported(path), trust);
  std::vector<NamedTensor> state = state_of(*file.model);
  for (NamedTensor& one : tensors) {  // the run may have trained in 16 bits
    const auto own = std::ranges::find(state, one.name, &NamedTensor::name);
    if (own != state.end()) one.tensor = one.tensor.to(own->tensor.scalar_type());
  }
  copy_from(TensorFile({}, view(tensors)), "the checkpoint", state);
  return file;
}

}  // namespace

int export_weights(const Options& options) {
  const std::filesystem::path& path = options.output.value();
  const bool is_weights = path.extension() == ".safetensors" || path.extension() == ".pt";
  if (!options.script && !is_weights)
    throw UsageError("-o " + path.string() +
                     ": its name does not say the format. Let it end in .safetensors or .pt.");
  if (options.script && path.extension() != options.script->extension())
    throw UsageError("-o " + path.string() + ": a model as " + options.script->string() +
                     " is written. Let its name end in " + options.script->extension().string() +
                     ".");
  const LoadedCheckpoint checkpoint = find_checkpoint(options.files.at(0), options.trust);
  if (options.exports_ema && !has_averages(checkpoint)) {
    throw UsageError(checkpoint.path.string() +
                     " holds no moving average: its run had no optimizer.ema_decay. Leave --ema "
                     "out.");
  }
  const std::vector<NamedTensor> tensors = model_tensors(checkpoint, options.exports_ema);
  const std::vector<TensorView> views = view(tensors);
  if (options.script) {
    const PythonFile python = python_file_with(*options.script, tensors, options.trust);
    write(path, [&](OutputFile file) {
      python.model->write(python.archive, file);
      file.sync();
    });
  } else {
    const bool is_torch = path.extension() == ".pt";
    write(path, [&](OutputFile file) {
      if (is_torch)
        write_torch_file(std::move(file), views);
      else
        write_safetensors(std::move(file), views, {{"format", "pt"}});
    });
  }
  std::uint64_t bytes = 0;
  for (const TensorView& one : views)
    bytes += one.bytes.size();
  std::cout << path.string() << ": " << views.size() << " tensors, "
            << format_bytes(static_cast<std::int64_t>(bytes)) << ", from "
            << checkpoint.path.string() << (options.exports_ema ? ", moving averages" : "")
            << std::endl;
  return exit_code::kOk;
}

}  // namespace ddp::worker
