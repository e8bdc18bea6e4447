// Any bytes as a file of torch.export.save: one UsageError, or a graph whose values are computed
// before they are used, and tensors that lie in the file.
#include "worker/save/format/exported_program.h"

#include <span>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/exported_archive.h"

using ddp::fuzz::require;

namespace {

// "z": the rest is the file. "w": it is the list of weights. Anything else: it is the graph, so
// that the fuzzer need not guess checksums.
std::string make_file(const std::string& input) {
  const std::string rest = input.empty() ? input : input.substr(1);
  if (input.starts_with('z')) return rest;
  const ddp::ExportedParts parts;
  const bool is_weights = input.starts_with('w');
  return ddp::stored_zip({{"archive_format", "pt2"},
                          {"archive_version", "0"},
                          {"byteorder", "little"},
                          {"models/model.json", is_weights ? ddp::exported_json(parts) : rest},
                          {"data/weights/model_weights_config.json",
                           is_weights ? rest : "{\"config\":{" + parts.weights + "}}"},
                          {"data/constants/model_constants_config.json", "{\"config\":{}}"},
                          {"data/weights/weight_0", std::string(48, 'x')},
                          {"data/weights/weight_1", std::string(4, 'y')}});
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file = make_file(ddp::fuzz::to_string(data, size));
  try {
    const auto bytes = std::as_bytes(std::span(file));
    const ddp::worker::ExportedProgram program =
        ddp::worker::read_exported_program(ddp::worker::read_zip(bytes, "input"), "input");
    for (const ddp::worker::ExportedTensor& tensor : program.tensors) {
      if (tensor.view.bytes.empty()) continue;
      require(
          tensor.view.bytes.data() >= bytes.data() &&
              tensor.view.bytes.data() + tensor.view.bytes.size() <= bytes.data() + bytes.size(),
          "tensors lie in the file");
    }
    for (const ddp::worker::ExportedOutput& output : program.training.outputs)
      require(output.value.index < program.training.values, "outputs are values");
  } catch (const ddp::UsageError&) {
  }
  return 0;
}
