// Any bytes as a file of torch.save, of a state_dict and of a checkpoint: one UsageError, or
// tensors that lie in the file.
#include "worker/save/format/torch_file.h"

#include <span>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/stored_zip.h"
#include "worker/save/format/python_checkpoint.h"
#include "worker/save/format/zip_file.h"

using ddp::fuzz::require;

namespace {

// "z": the rest is the file. Anything else: the rest is its pickle, so that the fuzzer need not
// guess checksums.
std::vector<std::byte> make_file(const std::string& input) {
  const std::string rest = input.empty() ? input : input.substr(1);
  const std::string file = input.starts_with('z')
                               ? rest
                               : ddp::stored_zip({{"a/data.pkl", rest},
                                                  {"a/data/0", std::string(64, 'x')},
                                                  {"a/data/1", std::string(8, 'y')}});
  const std::span<const std::byte> bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

using ddp::worker::TensorView;

void check(const TensorView& tensor, std::span<const std::byte> file) {
  const std::size_t width = ddp::worker::dtype_size(tensor.dtype);
  const std::uint64_t bytes = ddp::worker::tensor_bytes(tensor.dtype, tensor.shape);
  require(tensor.strides.empty() || tensor.strides.size() == tensor.shape.size(),
          "a stride for each size");
  if (bytes == 0) return;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < tensor.strides.size(); ++i)
    last += static_cast<std::uint64_t>(tensor.shape[i] - 1) *
            static_cast<std::uint64_t>(tensor.strides[i]);
  require(tensor.bytes.size() == (tensor.strides.empty() ? bytes : (last + 1) * width),
          "the bytes go from the first element to the last");
  require(tensor.bytes.data() >= file.data() &&
              tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size(),
          "tensors lie in the file");
  require(bytes <= file.size(), "no tensor is larger than the file");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::byte> bytes = make_file(ddp::fuzz::to_string(data, size));
  try {
    ddp::worker::require_whole_zip(bytes, "input");  // of a TorchScript, before LibTorch sees it
  } catch (const ddp::UsageError&) {
  }
  try {
    const ddp::worker::TensorFile file = ddp::worker::parse_torch_file(bytes, "input");
    for (const TensorView& tensor : file.tensors())
      check(tensor, file.bytes());
  } catch (const ddp::UsageError&) {
  }
  try {
    const ddp::worker::PythonCheckpoint file =
        ddp::worker::parse_python_checkpoint(bytes, "input", {{"epoch", "3"}});
    for (const TensorView& tensor : file.model)
      check(tensor, file.bytes);
    for (const ddp::worker::PythonParameter& parameter : file.optimizer.parameters)
      for (const TensorView& tensor : parameter.tensors)
        check(tensor, file.bytes);
  } catch (const ddp::UsageError&) {
  }
  return 0;
}
