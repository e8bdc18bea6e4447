#include "worker/train/verbs/export.h"

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/text/units.h"
#include "worker/save/checkpoint/checkpoint_path.h"
#include "worker/save/checkpoint/model_tensors.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/save/format/torch_file.h"
#include "worker/save/output_file.h"

namespace ddp::worker {
namespace {

void write(const std::filesystem::path& path, const std::vector<TensorView>& tensors) try {
  const bool is_torch = path.extension() == ".pt";
  replace_with(path, [&](OutputFile file) {
    if (is_torch)
      write_torch_file(std::move(file), tensors);
    else
      write_safetensors(std::move(file), tensors, {{"format", "pt"}});
  });
} catch (const SystemError& error) {
  throw UsageError("cannot write " + path.string() + ": " + error.what() +
                   ". Give another path behind -o.");
}

}  // namespace

int export_weights(const Options& options) {
  const std::filesystem::path& path = options.output.value();
  if (path.extension() != ".safetensors" && path.extension() != ".pt")
    throw UsageError("-o " + path.string() +
                     ": its name does not say the format. Let it end in .safetensors or .pt.");
  const LoadedCheckpoint checkpoint = find_checkpoint(options.files.at(0), options.trust);
  if (options.exports_ema && !has_averages(checkpoint)) {
    throw UsageError(checkpoint.path.string() +
                     " holds no moving average: its run had no optimizer.ema_decay. Leave --ema "
                     "out.");
  }
  const std::vector<NamedTensor> tensors = model_tensors(checkpoint, options.exports_ema);
  const std::vector<TensorView> views = view(tensors);
  write(path, views);
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
