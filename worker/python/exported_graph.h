// Runs a graph that torch.export has written, operator by operator, by LibTorch's dispatcher: so
// autograd, autocast, DDP and devices work as for any module.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/named_tensor.h"
#include "worker/save/format/exported_program.h"

namespace ddp::worker {

class ExportedGraphRunner {
 public:
  /// A step of a training changes the buffers, an evaluation does not. A trial is a step that
  /// leaves them as they are.
  enum class Mode { training, evaluation, trial };

  /// `tensors`: those of the model by name; what a run changes is changed in them. Errors:
  /// UsageError: an operator that this LibTorch does not have, or that a file may not call.
  ExportedGraphRunner(const ExportedGraph& graph, const std::map<std::string, at::Tensor>& tensors);
  ExportedGraphRunner(ExportedGraphRunner&&) noexcept;
  ExportedGraphRunner& operator=(ExportedGraphRunner&&) = delete;
  ~ExportedGraphRunner();

  /// Names of tensors that a training step changes itself.
  [[nodiscard]] std::vector<std::string> changed() const;

  /// The outputs. An evaluation switches the norms and dropouts of a graph that was exported in
  /// training mode. Errors: UsageError: images of another shape; any that an operator throws, with
  /// its place.
  [[nodiscard]] std::vector<NamedTensor> run(const at::Tensor& images, Mode mode) const;

  /// Norm and dropout layers that a training runs in training mode, and those that it does not.
  [[nodiscard]] int training_layers() const;
  [[nodiscard]] int evaluation_layers() const;
  /// The place of a node that draws random numbers in both modes; "" if there is none.
  [[nodiscard]] const std::string& random_place() const;

 private:
  struct Program;

  std::unique_ptr<Program> program_;
};

}  // namespace ddp::worker
