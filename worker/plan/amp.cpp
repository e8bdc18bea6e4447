#include "worker/plan/amp.h"

namespace ddp::worker {
namespace {

std::optional<LossScaleRule> plan_loss_scale(const AmpJob& job) {
  if (job.level == 0 || job.type == AmpJob::Type::bf16) return {};
  if (!job.loss_scale && job.level < 3) return LossScaleRule{};
  return LossScaleRule{.start = job.loss_scale.value_or(1), .growth = 1, .backoff = 1};
}

}  // namespace

AmpPlan plan_amp(const AmpJob& job) {
  AmpPlan plan;
  plan.autocast = job.level == 1;
  plan.weights_16_bit = job.level >= 2;
  plan.norms_16_bit = plan.weights_16_bit && !job.keep_batchnorm_fp32.value_or(job.level == 2);
  plan.masters = job.level == 2;
  plan.loss_scale = plan_loss_scale(job);
  return plan;
}

std::vector<std::string> amp_problems(const AmpJob& job, bool is_on_gpu) {
  std::vector<std::string> problems;
  const std::string level = "O" + std::to_string(job.level);
  if (job.level > 0 && job.type == AmpJob::Type::fp16 && !is_on_gpu) {
    problems.push_back(
        "amp.dtype: fp16 is for GPUs; a CPU computes it no faster than fp32 and loses small "
        "gradients. Use amp.dtype=bf16, or device=cuda.");
  }
  if (job.loss_scale && job.level == 0) {
    problems.push_back(
        "amp.loss_scale: at amp.level O0 all is fp32 and needs no scale. Leave it out, or set "
        "amp.level.");
  } else if (job.loss_scale && job.type == AmpJob::Type::bf16) {
    problems.push_back(
        "amp.loss_scale: bf16 has the range of fp32 and takes no scale. Leave it out, or use "
        "amp.dtype=fp16.");
  }
  if (job.keep_batchnorm_fp32 == false && job.level < 2) {
    problems.push_back("amp.keep_batchnorm_fp32: at amp.level " + level +
                       " all weights are fp32. Leave it out, or use amp.level O2 or O3.");
  }
  return problems;
}

}  // namespace ddp::worker
