// A model whose computation is in a file that Python has written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "worker/model/image_model.h"
#include "worker/model/named_tensor.h"
#include "worker/plan/args.h"
#include "worker/save/output_file.h"

namespace ddp::worker {

/// What such a model is to learn.
struct PythonModelData {
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  int classes = 10;
};

/// Parameters and buffers have the names of Python's state_dict. A tensor with several names is
/// listed once, with its first name. Those in 16 bits become float32, as those of every model
/// before amp.level is applied.
class PythonModel : public ImageModel {
 public:
  /// Call it before forward(). Runs the model on two images of zeros to find its outputs; those
  /// that `args` names with a factor (outputs.NAME) are its heads. Changes no tensor. Errors:
  /// UsageError: it does not take such images, has several outputs of which `args` names none, or a
  /// head is not scores of the classes.
  void choose_heads(const PythonModelData& data, const Args& args);

  at::Tensor forward(at::Tensor x) final;
  std::vector<at::Tensor> forward_heads(at::Tensor x) final;
  [[nodiscard]] std::vector<Head> heads() const final { return heads_; }

  /// "model.script: file with checksum ...": equal on ranks that run the same code.
  [[nodiscard]] std::string identity() const;
  /// What a user should know of the file; "" if there is nothing.
  [[nodiscard]] virtual std::string note() const = 0;
  /// Writes such a file with the present values of all tensors. `archive`: the bytes that this was
  /// made of. Errors: SystemError.
  virtual void write(std::span<const std::byte> archive, OutputFile& file) const = 0;

 protected:
  /// `key` is the job's, `name` the file's, `archive` its bytes.
  PythonModel(std::string key, std::string name, std::span<const std::byte> archive);

  /// "model.script: net.pt", to begin a message with.
  [[nodiscard]] std::string where() const { return key_ + ": " + name_; }
  /// Tensors in 16 bits become float32. Call it when all are registered.
  void widen_tensors();
  /// All outputs in the present mode. Errors: any that the code throws.
  virtual std::vector<NamedTensor> run(at::Tensor x) = 0;
  /// Those for `zeros` in training mode or not. Changes no tensor. Errors: any that the code
  /// throws.
  virtual std::vector<NamedTensor> try_out(const at::Tensor& zeros, bool training) = 0;

 private:
  std::string key_;
  std::string name_;
  std::string digest_;
  bool had_16_bits_ = false;
  std::vector<Head> heads_{Head()};  // the evaluated one first: that with the largest factor
};

/// Whether it has elements of float16 or bfloat16.
bool is_16_bit(const at::Tensor& tensor);

/// What went wrong in Python's code: "RuntimeError: size mismatch", without its stack.
std::string reason_of(const std::exception& error);

}  // namespace ddp::worker
