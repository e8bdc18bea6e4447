#include "worker/dist/ddp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <unordered_map>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "worker/dist/peer_call.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kBroadcastBytes = 250 << 20;  // as DistributedDataParallel of torch 2.11
constexpr std::int64_t kFirstBucketBytes = 1 << 20;

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& one : named)
    tensors.push_back(one.tensor);
  return tensors;
}

}  // namespace

Ddp::Ddp(DdpRequest request, Group& group) : request_(std::move(request)), group_(group) {
  if (group_.process_group() != nullptr) build_reducer();
}

Ddp::~Ddp() {
  if (std::uncaught_exceptions() == 0) return;
  // Unwinding after a lost peer: the reducer's destructor may wait for work that never ends, and
  // the process ends anyway.
  (void)new std::shared_ptr<c10d::Logger>(std::move(logger_));
  (void)new std::shared_ptr<c10d::Reducer>(std::move(reducer_));
}

void Ddp::build_reducer() {
  const c10::intrusive_ptr<c10d::ProcessGroup> process_group = group_.process_group();
  const std::vector<at::Tensor> parameters = tensors_of(request_.parameters);
  with_peers("the comparison of parameters", [&] {
    c10d::verify_params_across_processes(process_group, parameters, std::nullopt);
  });

  std::vector<at::Tensor> state;  // detached: the broadcast writes in place
  for (const at::Tensor& parameter : parameters)
    state.push_back(parameter.detach());
  for (const NamedTensor& buffer : request_.buffers)
    state.push_back(buffer.tensor.detach());
  with_peers("the broadcast of the weights",
             [&] { c10d::broadcast_coalesced(process_group, state, kBroadcastBytes, 0); });

  // One bucket for the first step; the reducer then rebuilds them in the order in which gradients
  // became ready.
  const std::vector<bool> sparse(parameters.size(), false);
  std::vector<std::vector<std::size_t>> buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(
          parameters, {std::numeric_limits<std::size_t>::max()}, sparse));
  std::reverse(buckets.begin(), buckets.end());
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    names[i] = request_.parameters[i].name;
  reducer_ = std::make_shared<c10d::Reducer>(parameters,
                                             std::move(buckets),
                                             process_group,
                                             sparse,
                                             request_.bucket_bytes,
                                             /*find_unused_parameters=*/false,
                                             /*gradient_as_bucket_view=*/true,
                                             names,
                                             std::min(kFirstBucketBytes, request_.bucket_bytes),
                                             /*skip_all_reduce_unused_params=*/false,
                                             /*use_python_reducer=*/false,
                                             /*bucket_bytes_cap_list=*/std::vector<std::int64_t>{});
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  logger_->set_construction_data_and_log(
      request_.model_name, {}, -1, /*broadcast_buffers=*/false, false, false);
}

void Ddp::prepare_to_reduce() {
  if (!reducer_) return;
  with_peers("the rebuilding of buckets", [this] {
    logger_->set_runtime_stats_and_log();
    reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();
  });
}

void Ddp::backward(const at::Tensor& loss, bool reduce) {
  if (!reducer_) {
    torch::autograd::backward({loss}, {});
    return;
  }
  with_peers("backward", [&] {
    if (reduce) reducer_->prepare_for_backward({});
    torch::autograd::backward({loss}, {});
  });
}

std::vector<at::Tensor> Ddp::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : request_.parameters)
    gradients.push_back(parameter.tensor.grad());
  return gradients;
}

void Ddp::zero_gradients() {
  const at::NoGradGuard no_grad;
  at::_foreach_zero_(gradients());
}

std::optional<DdpFigures> Ddp::figures() const {
  if (!logger_) return {};
  const c10::DDPLoggingData data = logger_->get_ddp_logging_data();
  const auto integer = [&data](const char* name) {
    const auto found = data.ints_map.find(name);
    return found == data.ints_map.end() ? 0 : found->second;
  };
  const auto milliseconds = [&integer](const char* name) {
    return static_cast<double>(integer(name)) / 1e6;
  };
  DdpFigures figures;
  figures.forward = milliseconds("avg_forward_compute_time");
  figures.backward = milliseconds("avg_backward_compute_time");
  figures.communication = milliseconds("avg_backward_comm_time");
  figures.overlap = milliseconds("avg_backward_compute_comm_overlap_time");
  figures.has_rebuilt_buckets = integer("has_rebuilt_buckets") != 0;
  return figures;
}

std::int64_t Ddp::digest() const {
  XXH3_state_t* const state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (const NamedTensor& parameter : request_.parameters) {
    const at::Tensor bytes = parameter.tensor.detach().contiguous();
    XXH3_64bits_update(state, bytes.data_ptr(), bytes.nbytes());
  }
  const XXH64_hash_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return static_cast<std::int64_t>(hash);
}

std::vector<int> Ddp::odd_ranks() {
  at::Tensor mine = at::empty({1}, at::kLong);
  mine.data_ptr<std::int64_t>()[0] = digest();
  const at::Tensor all = group_.gather(mine).contiguous();  // [world_size, 1]
  const std::int64_t* const first = all.data_ptr<std::int64_t>();
  return find_odd_ranks(std::vector<std::int64_t>(first, first + all.numel()));
}

std::vector<int> find_odd_ranks(const std::vector<std::int64_t>& digests) {
  std::map<std::int64_t, int> votes;
  for (const std::int64_t digest : digests)
    ++votes[digest];
  std::int64_t chosen = digests.empty() ? 0 : digests[0];
  for (const std::int64_t digest : digests) {
    if (votes[digest] > votes[chosen]) chosen = digest;
  }
  std::vector<int> odd;
  for (std::size_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] != chosen) odd.push_back(static_cast<int>(rank));
  }
  return odd;
}

}  // namespace ddp::worker
