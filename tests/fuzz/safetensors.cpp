// Any bytes as a safetensors file: one UsageError, or tensors that lie inside the file and have the
// size of their shape.
#include "worker/save/safetensors.h"

#include <cstring>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

ddp::worker::TensorFile parse(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  return ddp::worker::TensorFile::parse(std::move(bytes), "input");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const ddp::worker::TensorFile file = parse(data, size);
    const std::span<const std::byte> whole = file.bytes();
    std::size_t total = 0;
    unsigned sum = 0;
    for (const ddp::worker::TensorView& tensor : file.tensors()) {
      ddp::fuzz::require(
          tensor.bytes.size() == ddp::worker::tensor_bytes(tensor.dtype, tensor.shape),
          "a tensor has the size of its shape");
      ddp::fuzz::require(tensor.bytes.empty() || (tensor.bytes.data() >= whole.data() &&
                                                  tensor.bytes.data() + tensor.bytes.size() <=
                                                      whole.data() + whole.size()),
                         "a tensor lies inside the file");
      ddp::fuzz::require(file.find(tensor.name) == &tensor, "names are unique");
      for (const std::byte byte : tensor.bytes)
        sum += static_cast<unsigned>(byte);  // the sanitizer looks at each read
      total += tensor.bytes.size();
    }
    ddp::fuzz::require(total <= whole.size() && sum <= total * 255,
                       "no byte belongs to two tensors");
  } catch (const ddp::UsageError&) {
  }
  return 0;
}
