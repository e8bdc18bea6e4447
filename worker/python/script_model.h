// A model from Python: a module as torch.jit.script or torch.jit.trace makes it and torch.jit.save
// writes it.
// Trap: a script is code. Loading it may already run some of it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/python/python_model.h"

namespace ddp::worker {

/// Its tensors share their memory with the script.
class ScriptModel final : public PythonModel {
 public:
  /// `name` is the file's, `archive` its bytes. In training mode. Errors: UsageError: not an
  /// archive of torch.jit.save, or without parameters.
  ScriptModel(std::string name, std::span<const std::byte> archive);
  ScriptModel(const ScriptModel&) = delete;
  ScriptModel& operator=(const ScriptModel&) = delete;
  ~ScriptModel() override;

  void train(bool on = true) override;
  [[nodiscard]] bool reads_changed_buffers() const override;
  [[nodiscard]] int passes_until_steady() const override;
  [[nodiscard]] std::string note() const override;
  void write(std::span<const std::byte> archive, OutputFile& file) const override;
  /// An archive for torch.jit.load, with the present values of all tensors.
  [[nodiscard]] std::string archive() const;

 private:
  struct Script;  // LibTorch's types for it, whose headers take long to compile

  std::vector<NamedTensor> run(at::Tensor x) override;
  std::vector<NamedTensor> try_out(const at::Tensor& zeros, bool training) override;

  std::unique_ptr<Script> script_;
};

}  // namespace ddp::worker
