// Any bytes as a file of torch.save: one UsageError, or tensors that lie in the file.
#include "worker/save/torch_file.h"

#include <span>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/stored_zip.h"

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

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const ddp::worker::TensorFile file =
        ddp::worker::parse_torch_file(make_file(ddp::fuzz::to_string(data, size)), "input");
    for (const ddp::worker::TensorView& tensor : file.tensors()) {
      const std::size_t width = ddp::worker::dtype_size(tensor.dtype);
      const std::uint64_t bytes = ddp::worker::tensor_bytes(tensor.dtype, tensor.shape);
      require(tensor.strides.empty() || tensor.strides.size() == tensor.shape.size(),
              "a stride for each size");
      if (bytes == 0) continue;
      std::uint64_t last = 0;
      for (std::size_t i = 0; i < tensor.strides.size(); ++i)
        last += static_cast<std::uint64_t>(tensor.shape[i] - 1) *
                static_cast<std::uint64_t>(tensor.strides[i]);
      require(tensor.bytes.size() == (tensor.strides.empty() ? bytes : (last + 1) * width),
              "the bytes go from the first element to the last");
      require(tensor.bytes.data() >= file.bytes().data() &&
                  tensor.bytes.data() + tensor.bytes.size() <=
                      file.bytes().data() + file.bytes().size(),
              "tensors lie in the file");
      require(bytes <= file.bytes().size(), "no tensor is larger than the file");
    }
  } catch (const ddp::UsageError&) {
  }
  return 0;
}
