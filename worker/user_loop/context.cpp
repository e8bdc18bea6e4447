#include "worker/user_loop/context.h"

#include <errno.h>
#include <torch/torch.h>

#include <atomic>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/cli/log.h"
#include "common/cli/streams.h"
#include "common/error.h"
#include "worker/dist/host_memory.h"
#include "worker/dist/join_group.h"
#include "worker/plan/shard.h"
#include "worker/train/failure/error_reporter.h"
#include "worker/train/failure/stacks.h"
#include "worker/train/torch_version.h"
#include "worker/user_loop/state.h"

namespace ddp {

Context Context::from_environment(const ContextOptions& options) {
  static std::atomic<bool> is_called{false};
  if (is_called.exchange(true)) {
    throw std::logic_error(
        "Context::from_environment() was called a second time: a process is one rank, and has one "
        "Context. Make it in main and hand it on.");
  }
  secure_streams();
  worker::ErrorReporter& reporter = worker::error_reporter();
  reporter.program = program_invocation_short_name;
  reporter.may_leave_main = true;
  worker::report_on_terminate();
  const Environment environment = read_environment();
  log::open(reporter.program,
            log::parse_level(find_variable(environment, "LOGLEVEL").value_or("")));
  worker::check_torch_version();
  reporter.error_file = find_variable(environment, "TORCHELASTIC_ERROR_FILE").value_or("");
  auto state = std::make_unique<State>();
  state->self = read_identity(environment);
  reporter.rank = state->self.rank;
  const bool has_page = state->self.progress_fd >= 0;
  state->page =
      has_page ? MappedProgressPage::open(state->self.progress_fd) : MappedProgressPage::create();
  ProgressPage& page = **state->page;
  worker::print_stacks_on_signal();
  worker::print_stack_on_crash();
  worker::DeviceJob wanted;
  wanted.device = options.device;
  wanted.backend = options.backend;
  state->device = worker::open_device(wanted, state->self, environment);
  if (state->device.device.is_cpu()) worker::reuse_host_memory(environment);
  worker::report_lost_gpus();
  for (const std::string& note : state->device.notes)
    log::warning(note);
  page.phase = Phase::joining;
  touch(page);
  state->group = worker::join(state->self,
                              environment,
                              state->device,
                              "a loop of its own\n",
                              options.join_timeout,
                              options.timeout,
                              {"ContextOptions::join_timeout", "ContextOptions::timeout"});
  state->group->show_on(page);
  page.phase = Phase::loading;
  touch(page);
  return Context(std::move(state));
}

Context::Context(std::unique_ptr<State> state) : state_(std::move(state)) {}

// Without finish() a peer may be lost. The process ends, so parts that could wait for that peer are
// leaked.
Context::~Context() {
  if (!state_->group) return;
  if (std::uncaught_exceptions() == 0) log::warning("the program has not called Context::finish()");
  (void)state_->group.release();
  (void)state_.release();
}

int Context::rank() const {
  return state_->self.rank;
}

int Context::world_size() const {
  return state_->self.world_size;
}

int Context::local_rank() const {
  return state_->self.local_rank;
}

at::Device Context::device() const {
  return state_->device.device;
}

std::vector<std::int64_t> Context::shard(std::int64_t size,
                                         std::int64_t epoch,
                                         std::uint64_t seed,
                                         bool shuffle) const {
  return worker::shard({size, world_size(), rank(), seed, shuffle, false}, epoch);
}

std::vector<std::int64_t> Context::evaluation_shard(std::int64_t size) const {
  return worker::evaluation_shard(size, world_size(), rank());
}

void Context::note_step(std::int64_t step, double loss) const {
  ProgressPage& page = **state_->page;
  page.step.store(step, std::memory_order_relaxed);
  page.loss.store(loss, std::memory_order_relaxed);
  enter_phase(page, Phase::training);
  touch(page);
}

void Context::note_evaluation() const {
  ProgressPage& page = **state_->page;
  enter_phase(page, Phase::evaluating);
  touch(page);
}

worker::Group& Context::group() const {
  if (!state_->group) throw std::logic_error("the context has finished: it has no ranks any more");
  return *state_->group;
}

void Context::finish() {
  worker::Group& ranks = group();
  for (const std::weak_ptr<Ddp::Engine>& one : state_->replicas) {
    const std::shared_ptr<Ddp::Engine> engine = one.lock();
    if (!engine) continue;
    if (!engine->reducer->diverged_ranks().empty() && is_root()) {
      log::warning(
          "the ranks have other weights than each other. Gradients are averaged by Ddp::backward() "
          "alone, not by backward() of the loss, and not while a no_sync() lives.");
    }
    engine->reducer.reset();
  }
  ranks.close();
  state_->group.reset();
  (*state_->page)->phase = Phase::finished;
  std::cout << std::flush;
}

at::Tensor gather_for_metrics(const Context& context, const at::Tensor& rows) {
  const at::NoGradGuard no_grad;
  if (rows.dim() == 0)
    throw std::invalid_argument(
        "gather_for_metrics() takes rows: a tensor with a dimension or more");
  std::ostringstream kind;
  kind << rows.scalar_type() << " rows of " << rows.sizes().slice(1);
  const std::vector<std::string> kinds = worker::gather_texts(context.group(), kind.str());
  for (std::size_t rank = 1; rank < kinds.size(); ++rank) {
    if (kinds[rank] == kinds[0]) continue;
    throw std::invalid_argument("gather_for_metrics(): rank 0 gives " + kinds[0] + ", rank " +
                                std::to_string(rank) + " gives " + kinds[rank]);
  }
  const at::Tensor own = rows.detach().cpu().contiguous();
  return at::cat(worker::gather_rows(context.group(), own)).to(rows.device());
}

}  // namespace ddp
