#include "worker/model/footprint.h"

#include <array>
#include <utility>

#include "common/text/join_words.h"
#include "common/text/units.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kFull = 4;  // bytes of a value
constexpr std::int64_t kHalf = 2;

std::int64_t states_of(const OptimizerJob& job) {
  if (job.name == OptimizerJob::Name::registered) return 0;
  if (job.name != OptimizerJob::Name::sgd) return 2;
  return job.momentum > 0 ? 1 : 0;
}

}  // namespace

ModelSize size_of(const torch::nn::Module& model) {
  ModelSize size;
  for (const NamedTensor& one : parameters_of(model))
    (one.tensor.requires_grad() ? size.trainable : size.frozen) += one.tensor.numel();
  for (const NamedTensor& one : buffers_of(model)) {
    size.buffer_bytes += static_cast<std::int64_t>(one.tensor.nbytes());
    if (one.tensor.is_floating_point()) size.averaged_buffers += one.tensor.numel();
  }
  return size;
}

Footprint footprint(const ModelSize& size,
                    const OptimizerJob& optimizer,
                    const AmpJob& amp,
                    std::int64_t own_states) {
  const bool has_half_weights = amp.level >= 2;
  const bool has_masters = amp.level == 2;
  const std::int64_t weight = has_half_weights ? kHalf : kFull;
  Footprint bytes;
  bytes.parameters = weight * (size.trainable + size.frozen) + size.buffer_bytes;
  bytes.gradients = weight * size.trainable;
  if (has_masters) bytes.masters = kFull * size.trainable;
  bytes.optimizer =
      (states_of(optimizer) + own_states) * (has_masters ? kFull : weight) * size.trainable;
  if (optimizer.ema_decay) bytes.average = kFull * (size.trainable + size.averaged_buffers);
  return bytes;
}

std::string to_text(const Footprint& bytes) {
  const std::array<std::pair<const char*, std::int64_t>, 5> parts{{{"parameters", bytes.parameters},
                                                                   {"gradients", bytes.gradients},
                                                                   {"fp32 masters", bytes.masters},
                                                                   {"optimizer", bytes.optimizer},
                                                                   {"average", bytes.average}}};
  std::vector<std::string> texts;
  for (const auto& [name, count] : parts)
    if (count > 0) texts.push_back(name + (" " + format_bytes(count)));
  return format_bytes(bytes.total()) + ": " + join_words(texts);
}

}  // namespace ddp::worker
