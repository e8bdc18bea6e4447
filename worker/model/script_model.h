// A model from Python: a module as torch.jit.script or torch.jit.trace makes it and torch.jit.save
// writes it.
// Trap: a script is code. Loading it may already run some of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/model/image_model.h"
#include "worker/plan/args.h"

namespace ddp::worker {

/// What a script is to learn.
struct ScriptData {
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  int classes = 10;
};

/// Parameters and buffers have the names of Python's state_dict and share their memory with the
/// script. A tensor with several names is listed once, with its first name. Those in 16 bits become
/// float32, as those of every model before amp.level is applied.
class ScriptModel final : public ImageModel {
 public:
  /// `name` is the file's, `archive` its bytes. In training mode. Errors: UsageError: not an
  /// archive of torch.jit.save, or without parameters.
  ScriptModel(std::string name, std::span<const std::byte> archive);
  ScriptModel(const ScriptModel&) = delete;
  ScriptModel& operator=(const ScriptModel&) = delete;
  ~ScriptModel() override;

  /// Call it before forward(). Runs the model on two images of zeros to find its outputs; those
  /// that `args` names with a factor (outputs.NAME) are its heads. Changes no tensor. Errors:
  /// UsageError: it does not take such images, has several outputs of which `args` names none, or a
  /// head is not scores of the classes.
  void choose_heads(const ScriptData& data, const Args& args);

  at::Tensor forward(at::Tensor x) override;
  std::vector<at::Tensor> forward_heads(at::Tensor x) override;
  [[nodiscard]] std::vector<Head> heads() const override { return heads_; }
  void train(bool on = true) override;

  /// Of the file: equal on ranks that run the same code.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  /// What a user should know of the script; "" if there is nothing.
  [[nodiscard]] std::string note() const;
  /// An archive for torch.jit.load, with the present values of all tensors.
  [[nodiscard]] std::string archive() const;

 private:
  struct Script;  // LibTorch's types for it, whose headers take long to compile

  std::unique_ptr<Script> script_;
  std::vector<Head> heads_{Head()};  // the evaluated one first: that with the largest factor
  std::string name_;
  std::string digest_;
};

}  // namespace ddp::worker
