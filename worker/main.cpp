// ddp-worker: one rank of a job, from its identity to its exit code.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <iostream>

#include "common/error.h"
#include "common/identity.h"
#include "common/log.h"
#include "common/progress_page.h"
#include "common/run_dir.h"
#include "worker/data/dataset.h"
#include "worker/dist/context.h"
#include "worker/dist/ddp.h"
#include "worker/model/registry.h"
#include "worker/plan/job.h"
#include "worker/plan/options.h"
#include "worker/save/safetensors.h"
#include "worker/train/console.h"
#include "worker/train/error_file.h"
#include "worker/train/optimizer.h"
#include "worker/train/snapshot.h"
#include "worker/train/trainer.h"
#include "worker/train/versions.h"

using namespace ddp;
using namespace ddp::worker;

namespace {

// What the signal handler may touch: lock-free atomics only (signal-safety(7)).
std::atomic<bool> stop_requested{false};
std::atomic<ProgressPage*> page_of_handler{nullptr};

// The agent says on the page why it stops us. In a teardown a peer is gone and every collective
// would hang: leave at once. Otherwise finish the step that all ranks agree on. A second press
// means now.
extern "C" void on_stop_signal(int signal) {
  const ProgressPage* const page = page_of_handler.load(std::memory_order_relaxed);
  if (page->stop_reason.load(std::memory_order_relaxed) == StopReason::teardown) {
    ::_exit(exit_code::kStoppedAfterCheckpoint);
  }
  if (stop_requested.exchange(true) && page->version.load(std::memory_order_relaxed) == 0) {
    ::_exit(exit_code::of_signal(signal));
  }
}

// From here on a stop signal means a checkpoint first; before, there is nothing to save and it just
// ends the process.
void handle_stop_signals(ProgressPage& page) {
  page_of_handler = &page;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    struct sigaction old {};
    check(::sigaction(signal, nullptr, &old), "sigaction", "stop signals");
    if (old.sa_handler != SIG_IGN)
      check(::sigaction(signal, &action, nullptr), "sigaction", "stop signals");
  }
}

std::string describe_self() {
  std::array<char, 128> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + ", cpu, " + std::to_string(at::get_num_threads()) +
         " threads, pid " + std::to_string(::getpid());
}

// What must be equal on all ranks, one per line.
std::string job_digest(const JobValues& values) {
  std::string digest;
  for (const auto& [path, value] : job_identity(values, false))
    digest += path + ": " + value + "\n";
  return digest;
}

// Loads the data on every rank; a problem is known to all before anyone leaves, and said once.
// Returns an exit code when it was another rank that said it. Errors: UsageError.
std::optional<int> load_data(const DataJob& job, Group& group, DataSet& data) {
  std::string problem;
  try {
    data = load_data_set({job.name, job.root, job.seed, job.train_size, job.test_size});
  } catch (const UsageError& error) {
    problem = error.what();
  }
  const std::vector<std::string> problems = gather_texts(group, problem);
  const auto first = std::find_if(
      problems.begin(), problems.end(), [](const std::string& text) { return !text.empty(); });
  if (first == problems.end()) return {};
  const bool said_already =
      problem.empty() || (first - problems.begin() < group.rank() && problem.starts_with(*first));
  if (said_already) return exit_code::kLostPeer;  // a victim: the cause is the rank that said it
  throw UsageError(problem);
}

Model make_model(const Job& job, const ImageSet& images, const Group& group) {
  // The same seed on every rank draws the same weights (rank 0's are broadcast all the same); after
  // that each goes its own way.
  at::manual_seed(job.seed);
  Model model =
      build_model({job.model, images.channels, images.height, images.width, images.classes});
  at::manual_seed(job.seed + static_cast<std::uint64_t>(group.rank()));
  if (job.weights && group.is_root()) {
    std::vector<NamedTensor> state;
    for (const auto& item : model->named_parameters())
      state.push_back({item.key(), item.value()});
    for (const auto& item : model->named_buffers())
      state.push_back({item.key(), item.value()});
    copy_from(read_safetensors(*job.weights), job.weights->string(), state);
  }
  use_channels_last(*model);
  return model;
}

DdpRequest ddp_request(const Job& job, const ImageModel& model) {
  DdpRequest request;
  for (const auto& item : model.named_parameters())
    request.parameters.push_back({item.key(), item.value()});
  for (const auto& item : model.named_buffers())
    request.buffers.push_back({item.key(), item.value()});
  request.bucket_bytes = job.bucket_bytes;
  request.model_name = job.model;
  return request;
}

int train(const JobValues& values,
          const WorkerIdentity& self,
          const Environment& environment,
          ProgressPage& page,
          std::optional<RunDir>& own_run_dir,
          const std::string& command) {
  const Job job = make_job(values, self.world_size);
  if (job.deterministic) at::globalContext().setDeterministicAlgorithms(true, false);
  page.phase = Phase::joining;
  const std::unique_ptr<Group> group = join(self, environment, job_digest(values));
  // Beyond this point every rank is here and the world is fixed.
  const std::vector<std::string> ranks = gather_texts(*group, describe_self());
  std::filesystem::path run_dir = self.run_dir;
  if (group->is_root() && run_dir.empty()) {
    own_run_dir = RunDir::choose(values, self.world_size, command);
    run_dir = own_run_dir->path();
  }
  if (group->is_root()) {
    std::cout << rank_table(ranks) << batch_line(job.batch, self.world_size) << std::endl;
    if (own_run_dir) std::cout << own_run_dir->notice() << std::endl;
  }
  page.phase = Phase::loading;
  DataSet data;
  if (const std::optional<int> failed = load_data(job.data, *group, data)) return *failed;
  // Beyond this point every rank holds the same data set.
  const Model model = make_model(job, data.train, *group);
  Ddp replica(ddp_request(job, *model), *group);
  // Beyond this point the weights are equal on every rank.
  Sgd optimizer(job.optimizer, replica);
  handle_stop_signals(page);
  Trainer trainer(
      {job, *group, data, *model, replica, optimizer, page, stop_requested, run_dir, self.run_id});
  const int code = trainer.run();
  group->close();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::string error_file;
  std::optional<RunDir> own_run_dir;  // rank 0's, when no agent of ours chose one
  int code = exit_code::kInternal;
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) std::cout << help_text();
    if (options.version) std::cout << version_text() << std::endl;
    if (options.help || options.version) return exit_code::kOk;
    const Environment environment = read_environment();
    log::open("ddp-worker", log::parse_level(find_variable(environment, "LOGLEVEL").value_or("")));
    check_torch_version();
    error_file = find_variable(environment, "TORCHELASTIC_ERROR_FILE").value_or("");
    const WorkerIdentity self = read_identity(environment);
    const MappedProgressPage page = self.progress_fd >= 0
                                        ? MappedProgressPage::open(self.progress_fd)
                                        : MappedProgressPage::create();
    code = train(load_job(options), self, environment, *page, own_run_dir, options.command);
  } catch (const std::exception& error) {
    code = explain("ddp-worker", error);
    if (!error_file.empty()) write_error_file(error_file, error);
  }
  try {
    if (own_run_dir) write_result(own_run_dir->path(), code, "\"decided_by\":\"worker\"");
  } catch (const std::exception& error) {
    explain("ddp-worker", error);
  }
  // No destructors of libraries: a thread of a group that lost its peer could keep exit() waiting.
  std::cout << std::flush;
  ::_exit(code);
}
