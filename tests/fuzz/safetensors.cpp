// Any bytes as a safetensors file: one UsageError, or tensors that lie side by side up to the end
// of the file, each with the size of its shape.
#include "worker/save/format/safetensors.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"

using ddp::fuzz::require;

namespace {

// "f": the rest is the file. Anything else: the rest is a header up to the first zero byte, then
// data, and the length before it is made to fit, so that the fuzzer need not guess it.
std::vector<std::byte> make_file(const std::string& input) {
  std::string file = input.substr(std::min<std::size_t>(1, input.size()));
  if (!input.starts_with('f')) {
    const std::size_t end = std::min(file.find('\0'), file.size());
    std::uint64_t length = end;
    std::string prefix(sizeof length, '\0');
    std::memcpy(prefix.data(), &length, sizeof length);
    if (end < file.size()) file.erase(end, 1);
    file.insert(0, prefix);
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const ddp::worker::TensorFile file =
        ddp::worker::TensorFile::parse(make_file(ddp::fuzz::to_string(data, size)), "input");
    const std::byte* const end = file.bytes().data() + file.bytes().size();
    const std::byte* place = nullptr;
    for (const ddp::worker::TensorView& tensor : file.tensors()) {
      require(tensor.bytes.size() == ddp::worker::tensor_bytes(tensor.dtype, tensor.shape),
              "a tensor has the size of its shape");
      require(place == nullptr || tensor.bytes.data() == place, "tensors lie side by side");
      place = tensor.bytes.data() + tensor.bytes.size();
      require(tensor.bytes.data() >= file.bytes().data() && place <= end,
              "tensors lie in the file");
      require(file.find(tensor.name) == &tensor, "names are unique");
    }
    require(place == nullptr || place == end, "every byte is some tensor's");
  } catch (const ddp::UsageError&) {
  }
  return 0;
}
