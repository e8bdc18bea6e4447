// A model from Python: a program as torch.export makes it and torch.export.save writes it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "worker/python/exported_graph.h"
#include "worker/python/python_model.h"
#include "worker/save/format/exported_program.h"

namespace ddp::worker {

class ExportedModel final : public PythonModel {
 public:
  /// `name` is the file's, `archive` its bytes. In training mode. Errors: UsageError: not an
  /// archive of torch.export.save, one that holds what is not supported, or without parameters.
  ExportedModel(const std::string& name, std::span<const std::byte> archive);

  [[nodiscard]] bool reads_changed_buffers() const override;
  [[nodiscard]] std::string note() const override;
  void write(std::span<const std::byte> archive, OutputFile& file) const override;

 private:
  std::vector<NamedTensor> run(at::Tensor x) override;
  std::vector<NamedTensor> try_out(const at::Tensor& zeros, bool training) override;

  void register_tensors(const ExportedProgram& program);
  /// Errors: UsageError: a training step changes what is not in the tree.
  void require_saved(const ExportedProgram& program) const;
  [[nodiscard]] const ExportedGraphRunner& runner(bool training) const;

  std::map<std::string, at::Tensor> tensors_;  // also constants, which are not in the tree
  std::optional<ExportedGraphRunner> training_;
  std::optional<ExportedGraphRunner> evaluation_;  // absent: the training graph serves both
};

}  // namespace ddp::worker
