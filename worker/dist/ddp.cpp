#include "worker/dist/ddp.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/join_words.h"
#include "worker/dist/peer_call.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kBroadcastBytes = 250 << 20;  // as DistributedDataParallel of torch 2.11
constexpr std::int64_t kFirstBucketBytes = 1 << 20;
constexpr std::int64_t kFirstSamples = 10;  // see DdpTimings

int sample_every(const DdpRequest& request) {
  constexpr int kOnCpu = 10;
  constexpr int kOnDevice = 100;
  const bool is_cpu = request.parameters.empty() || request.parameters[0].tensor.is_cpu();
  return is_cpu ? kOnCpu : kOnDevice;
}

/// Reads the times in c10d's log. `kind`: "avg_" for means, "" for the newest sample.
DdpTimings read_timings(const c10::DDPLoggingData& data, const std::string& kind) {
  const auto integer = [&data](const std::string& name) {
    const auto found = data.ints_map.find(name);
    return found == data.ints_map.end() ? 0 : found->second;
  };
  const auto time_ms = [&](const char* name) {
    return static_cast<double>(integer(kind + name)) / 1e6;
  };
  DdpTimings timings;
  timings.forward = time_ms("forward_compute_time");
  timings.backward = time_ms("backward_compute_time");
  timings.communication = time_ms("backward_comm_time");
  timings.overlap = time_ms("backward_compute_comm_overlap_time");
  timings.has_rebuilt_buckets = integer("has_rebuilt_buckets") != 0;
  return timings;
}

// Names of the parameters that the graph of `loss` does not reach.
std::string find_unreached(const at::Tensor& loss, const std::vector<NamedTensor>& parameters) {
  std::vector<const torch::autograd::Node*> pending{loss.grad_fn().get()};
  std::unordered_set<const torch::autograd::Node*> seen{pending.front()};
  while (!pending.empty()) {
    const torch::autograd::Node* const node = pending.back();
    pending.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second)
        pending.push_back(edge.function.get());
    }
  }
  std::vector<std::string> names;
  for (const NamedTensor& parameter : parameters) {
    if (!seen.contains(torch::autograd::impl::grad_accumulator(parameter.tensor).get()))
      names.push_back(parameter.name);
  }
  return join_words(names);
}

/// Advice for parameters that got no gradient but should have.
std::string unused_advice(const DdpRequest& request) {
  if (request.static_graph) {
    return std::string(", as it did in the first step. Set ") +
           (request.has_job_file ? "ddp.static_graph=false."
                                 : "DdpOptions::static_graph to false.");
  }
  return request.has_job_file ? ". Set ddp.find_unused=true, or take them out of the training with "
                                "model.freeze."
                              : ". Set DdpOptions::find_unused to true, or call "
                                "requires_grad_(false) on them before the ddp::Ddp is made.";
}

/// A scope guard for the backward of `loss`: once all gradients are computed, `page` shows this
/// rank as inside a collective. The reducer waits for its buckets in a callback at the end of
/// backward; the callback that this guard queues when backward begins runs before it. Does nothing
/// if `page` is null.
class ShownWait {
 public:
  ShownWait(const at::Tensor& loss, ProgressPage* page) : loss_(loss) {
    if (page == nullptr || !loss.requires_grad()) return;
    hook_ = loss.register_hook([this, page](const at::Tensor&) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [this, page] { inside_.emplace(page); });
    });
  }
  ShownWait(const ShownWait&) = delete;
  ShownWait& operator=(const ShownWait&) = delete;
  ~ShownWait() {
    if (hook_) loss_.remove_hook(*hook_);
  }

 private:
  const at::Tensor& loss_;
  std::optional<unsigned> hook_;
  std::optional<InCollective> inside_;
};

/// Keeps `object` to the end of the process, without a report of a leak checker.
void leak(std::shared_ptr<void> object) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<void>>();
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(object));
}

using ProcessGroupPointer = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Gradient compression, a hook of the Reducer: sends gradients in 16 bits, half the bytes. It
/// averages each bucket over the ranks, sent as `type`; each mean keeps 8 significant bits (bf16)
/// or 11 (fp16). It pays between nodes; on loopback it costs more than it saves. Trap: with a hook
/// the Reducer does not divide. This hook divides before it rounds: a sum of fp16 values could
/// overflow, the mean of values that fit cannot. Source:
/// torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py of torch 2.11.
class Compress final : public c10d::CppCommHookInterface<ProcessGroupPointer> {
 public:
  Compress(at::ScalarType type, ProcessGroupPointer group)
      : c10d::CppCommHookInterface<ProcessGroupPointer>(std::move(group)), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor buffer = bucket.getBuffer();
    std::vector<at::Tensor> compressed{buffer.div_(state_->getSize()).to(type_)};
    // Copied back into the bucket, so that the gradients stay views of it.
    const auto decompress = [buffer](c10::ivalue::Future& sent) {
      buffer.copy_(sent.value().toTensorVector().at(0));
      return c10::IValue(std::vector<at::Tensor>{buffer});
    };
    return state_->allreduce(compressed)
        ->getFuture()
        ->then(decompress, c10::ListType::create(c10::TensorType::get()));
  }

 private:
  at::ScalarType type_;
};

}  // namespace

Ddp::Ddp(DdpRequest request, Group& group) : request_(std::move(request)), group_(group) {
  if (group_.process_group() == nullptr) return;
  if (request_.has_views) remove_gradients();  // gradients of an abandoned step
  build_reducer();
}

Ddp::~Ddp() {
  if (std::uncaught_exceptions() == 0 || group_.is_abandoned()) return;
  // After a lost peer the reducer's destructor may wait for work that never ends. The process ends
  // anyway.
  leak(std::move(logger_));
  leak(std::move(reducer_));
}

void Ddp::build_reducer() {
  const ProcessGroupPointer process_group = group_.process_group();
  const std::vector<at::Tensor> parameters = tensors_of(request_.parameters);
  with_peers(group_, "the comparison of parameters", [&] {
    c10d::verify_params_across_processes(process_group, parameters, std::nullopt);
  });

  std::vector<at::Tensor> state;  // detached: the broadcast writes in place
  for (const at::Tensor& parameter : parameters)
    state.push_back(parameter.detach());
  for (const NamedTensor& buffer : request_.buffers)
    state.push_back(buffer.tensor.detach());
  with_peers(group_, "the broadcast of the weights", [&] {
    c10d::broadcast_coalesced(process_group, state, kBroadcastBytes, 0);
  });

  // The first step has one bucket; then the reducer rebuilds them in the order in which gradients
  // became ready. It never rebuilds when it looks for unused parameters each step.
  const std::int64_t first_bucket_bytes = std::min(kFirstBucketBytes, request_.bucket_bytes);
  std::vector<std::size_t> limits{std::numeric_limits<std::size_t>::max()};
  if (searches_unused()) {
    limits = {static_cast<std::size_t>(first_bucket_bytes),
              static_cast<std::size_t>(request_.bucket_bytes)};
  }
  const std::vector<bool> sparse(parameters.size(), false);
  std::vector<std::vector<std::size_t>> buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, limits, sparse));
  std::reverse(buckets.begin(), buckets.end());
  // Trap: with TORCH_DISTRIBUTED_DEBUG set, a parameter without a name is an assertion.
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    names[i] = request_.parameters[i].name;
  reducer_ = std::make_shared<c10d::Reducer>(parameters,
                                             std::move(buckets),
                                             process_group,
                                             sparse,
                                             request_.bucket_bytes,
                                             request_.find_unused,
                                             /*gradient_as_bucket_view=*/request_.has_views,
                                             names,
                                             first_bucket_bytes,
                                             /*skip_all_reduce_unused_params=*/false,
                                             /*use_python_reducer=*/false,
                                             /*bucket_bytes_cap_list=*/std::vector<std::int64_t>{});
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  reducer_->set_ddp_runtime_logging_sample_rate(sample_every(request_));
  logger_->set_construction_data_and_log(request_.model_name,
                                         {},
                                         -1,
                                         request_.buffer_sync == BufferSync::each_step,
                                         request_.has_sync_batch_norm,
                                         request_.static_graph);
  if (request_.static_graph) {
    reducer_->set_static_graph();
    logger_->set_static_graph();
  }
  if (request_.hook != CommHook::none) {
    const bool is_fp16 = request_.hook == CommHook::fp16;
    reducer_->register_comm_hook(
        std::make_unique<Compress>(is_fp16 ? at::kHalf : at::kBFloat16, process_group));
    logger_->set_comm_hook(is_fp16 ? "fp16" : "bf16");
  }
}

/// Adds the newest sample to our own sums, because c10d's means include the slow first steps.
/// Called when the Logger has taken the times of the previous iteration, if it samples that one.
void Ddp::note_sample() {
  const std::int64_t done = iterations_++;
  const bool counts = done > kFirstSamples && done % sample_every(request_) == 0;
  if (!counts) return;
  const DdpTimings newest = read_timings(logger_->get_ddp_logging_data(), "");
  ++sample_count_;
  sample_sums_.forward += newest.forward;
  sample_sums_.backward += newest.backward;
  sample_sums_.communication += newest.communication;
  sample_sums_.overlap += newest.overlap;
}

void Ddp::prepare_to_reduce() {
  if (!reducer_) return;
  if (request_.buffer_sync == BufferSync::each_step) sync_buffers();
  logger_->set_runtime_stats_and_log();
  note_sample();
  reducer_->prepare_for_forward();
}

void Ddp::backward(const at::Tensor& loss, bool reduce, const at::Tensor& initial_gradient) {
  // Trap: the reducer would give wrong gradients without an error.
  if (request_.static_graph && !reduce)
    throw std::logic_error("a static graph cannot accumulate gradients over micro-steps");
  if (!reducer_) {
    torch::autograd::backward({loss}, {initial_gradient});
    unshare_gradients();
    if (reduce) note_reduction();
    return;
  }
  with_peers(group_, "backward", [&] {
    // Trap: the reducer supports neither create_graph nor gradients of another dtype than their
    // parameters. create_graph is off here, and autograd gives a gradient its parameter's dtype,
    // which is that of the buckets too.
    // Trap: the reducer waits for every parameter that is reachable from the given outputs. From
    // the loss itself, each of these gets a gradient.
    if (reduce)
      reducer_->prepare_for_backward(searches_unused() ? std::vector{loss}
                                                       : std::vector<at::Tensor>{});
    const ShownWait waiting(loss, reduce ? group_.page() : nullptr);
    torch::autograd::backward({loss}, {initial_gradient});
    if (reduce) {
      finish_reduction(loss);
    } else if (request_.has_views) {
      unshare_gradients();
    }
  });
}

void Ddp::finish_reduction(const at::Tensor& loss) {
  // Trap: without this call the first step of a static graph is never reduced, without an error.
  if (request_.static_graph && !has_reduced_) reducer_->delay_all_reduce();
  try {
    // Trap: the reducer would check this only at the start of the next step, after this one has
    // used gradients that were never reduced.
    reducer_->check_finalized();
  } catch (const c10::Error& error) {
    const std::string names = find_unreached(loss, request_.parameters);
    if (names.empty()) throw;
    throw UsageError("no gradient for " + names + " on rank " + std::to_string(group_.rank()) +
                     ": the loss does not depend on them" + unused_advice(request_));
  }
  // Trap: rebuilt buckets turn existing gradients into views, and the reducer divides views by the
  // number of ranks, but multiplies other gradients by its inverse. So buckets are rebuilt here,
  // once, and not before a last micro-step as in DistributedDataParallel: then all steps round in
  // the same way.
  reducer_->rebuild_buckets();
  note_reduction();
}

bool Ddp::searches_unused() const {
  return request_.find_unused && !request_.static_graph;
}

void Ddp::note_reduction() {
  const bool is_first = !std::exchange(has_reduced_, true);
  if (is_first && request_.has_views && group_.is_root()) log_unused();
}

void Ddp::log_unused() const {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : request_.parameters) {
    if (!parameter.tensor.grad().defined()) names.push_back(parameter.name);
  }
  if (!names.empty()) {
    log::info(std::string("unused in the first step") +
              (group_.world_size() > 1 ? ", by every rank: " : ": ") + join_words(names) +
              ". Where no step uses them they keep their value.");
  } else if (reducer_ && request_.find_unused) {
    log::info(
        "ddp.find_unused is on, and the first step used every parameter. Turn it off unless later "
        "steps do not: it costs a walk of the graph in each.");
  }
}

std::vector<at::Tensor> Ddp::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : request_.parameters)
    gradients.push_back(parameter.tensor.grad());
  return gradients;
}

void Ddp::remove_gradients() {
  for (NamedTensor& parameter : request_.parameters)
    parameter.tensor.mutable_grad() = at::Tensor();
}

// Trap: autograd may install gradients that share memory, as when a model adds views of two
// parameters. Code that changes gradients in place would change such memory twice. So these
// gradients are cloned.
void Ddp::unshare_gradients() {
  for (NamedTensor& parameter : request_.parameters) {
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (gradient.defined() && gradient.storage().use_count() > 1) gradient = gradient.clone();
  }
}

bool Ddp::keeps_gradients() const {
  return reducer_ != nullptr && request_.has_views;
}

int Ddp::bucket_warmup_steps() const {
  if (!reducer_) return 0;
  // In the first step of a static graph the reducer counts gradients, in the second it records
  // their order.
  if (request_.static_graph) return 2;
  return request_.find_unused ? 0 : 1;
}

void Ddp::sync_buffers(const std::vector<NamedTensor>& more) {
  if (!reducer_ || request_.buffer_sync == BufferSync::never || request_.buffers.empty()) return;
  // Trap: autograd forbids writing a buffer between a forward that used it and its backward. Batch
  // norm's backward reads no buffer, so this writes through variable_data(), which autograd does
  // not track.
  std::vector<at::Tensor> buffers;
  for (const NamedTensor& buffer : request_.buffers)
    buffers.push_back(buffer.tensor.variable_data());
  for (const NamedTensor& buffer : more)
    buffers.push_back(buffer.tensor.variable_data());
  const InCollective waiting = group_.enter();
  with_peers(group_, "the broadcast of the buffers", [&] {
    c10d::broadcast_coalesced(group_.process_group(), buffers, kBroadcastBytes, 0);
  });
}

std::optional<DdpTimings> Ddp::timings() const {
  if (!logger_) return {};
  DdpTimings timings = read_timings(logger_->get_ddp_logging_data(), "avg_");
  if (sample_count_ == 0) return timings;
  const auto samples = static_cast<double>(sample_count_);
  timings.forward = sample_sums_.forward / samples;
  timings.backward = sample_sums_.backward / samples;
  timings.communication = sample_sums_.communication / samples;
  timings.overlap = sample_sums_.overlap / samples;
  return timings;
}

std::int64_t Ddp::digest(const std::vector<NamedTensor>& more) const {
  std::vector<NamedTensor> all = request_.parameters;
  all.insert(all.end(), more.begin(), more.end());
  return digest_of(all);
}

std::vector<int> Ddp::diverged_ranks(const std::vector<NamedTensor>& more) {
  return gather_diverged_ranks(group_, digest(more));
}

double loss_factor(std::int64_t samples, std::int64_t global_batch, int world_size) {
  return static_cast<double>(samples) * world_size / static_cast<double>(global_batch);
}

}  // namespace ddp::worker
