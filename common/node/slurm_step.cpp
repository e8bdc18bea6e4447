#include "common/node/slurm_step.h"

#include <initializer_list>
#include <optional>
#include <string_view>

#include "common/node/node_list.h"
#include "common/text/parse_whole.h"

namespace ddp {
namespace {

// Numbers above these are Slurm's own steps: interactive, batch, external, pending (slurm.h).
constexpr std::uint64_t kFirstSpecialStep = 0xfffffff0;

/// The entry of `node` in "2(x3),1"; nothing: none.
std::optional<int> count_on_node(std::string_view text, int node) {
  std::int64_t left = node;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const std::size_t times = item.find("(x");
    const std::optional<int> count = parse_whole<int>(item.substr(0, times), 0);
    std::optional<int> nodes = 1;
    if (times != std::string_view::npos && item.ends_with(')'))
      nodes = parse_whole<int>(item.substr(times + 2, item.size() - times - 3), 0);
    if (!count || !nodes) return {};
    if (left < *nodes) return count;
    left -= *nodes;
  }
  return {};
}

/// The number at the end of "4" or "a100:4"; 0 when there is none.
int count_gpus(std::string_view text) {
  return parse_whole<int>(text.substr(text.rfind(':') + 1), 0).value_or(0);
}

class StepReader {
 public:
  explicit StepReader(const Environment& environment) : environment_(environment) {}

  SlurmFacts read() {
    const std::optional<std::string> step = find({"SLURM_STEP_ID", "SLURM_STEPID"});
    const auto step_number = step ? parse_whole<std::uint64_t>(*step, 0) : std::nullopt;
    if (!step || (step_number && *step_number >= kFirstSpecialStep)) {
      const auto nodes = find({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
      if (find({"SLURM_JOB_ID", "SLURM_JOBID"}) && nodes)
        facts_.job_nodes = parse_whole<int>(*nodes, 0).value_or(0);
      return std::move(facts_);
    }
    facts_.in_step = true;
    read_step();
    return std::move(facts_);
  }

 private:
  using Names = std::initializer_list<const char*>;

  [[nodiscard]] std::optional<std::string> find(Names names) const {
    for (const char* const name : names)
      if (auto text = find_variable(environment_, name)) return text;
    return {};
  }

  void complain(const std::string& what) {
    if (facts_.problem.empty()) facts_.problem = what;
  }

  template <typename Number>
  void take(Names names, Number& number) {
    const std::optional<std::string> text = find(names);
    const std::string name = *names.begin();
    if (!text) return complain(name + " is not set");
    const std::optional<Number> value = parse_whole<Number>(*text, 0);
    if (!value) return complain(name + "=" + *text + " is not a number");
    number = *value;
  }

  void read_step() {
    SlurmStep& step = facts_.step;
    take({"SLURM_JOB_ID", "SLURM_JOBID"}, step.job);
    take({"SLURM_STEP_ID", "SLURM_STEPID"}, step.step);
    take({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, step.nodes);
    take({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, step.tasks);
    take({"SLURM_NODEID"}, step.node);
    take({"SLURM_PROCID"}, step.task);
    take({"SLURM_LOCALID"}, step.task_here);
    if (step.node >= step.nodes) complain("SLURM_NODEID does not fit SLURM_STEP_NUM_NODES");
    if (step.task >= step.tasks) complain("SLURM_PROCID does not fit SLURM_STEP_NUM_TASKS");
    if (step.task_here >= step.tasks)
      return complain("SLURM_LOCALID does not fit SLURM_STEP_NUM_TASKS");
    read_nodes();
    const auto here = find({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
    step.tasks_here = here ? count_on_node(*here, step.node).value_or(0) : 0;
    if (step.task_here >= step.tasks_here) step.tasks_here = step.task_here + 1;
    if (const auto gpus = find({"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}))
      step.gpus = count_gpus(*gpus);
  }

  void read_nodes() {
    const auto text = find({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    if (!text) return complain("SLURM_STEP_NODELIST is not set");
    const NodeList list = read_node_list(*text);
    if (!list.problem.empty()) return complain("SLURM_STEP_NODELIST: " + list.problem);
    if (list.names.size() != static_cast<std::size_t>(facts_.step.nodes)) {
      return complain("SLURM_STEP_NODELIST=" + *text + " has " + std::to_string(list.names.size()) +
                      " names, SLURM_STEP_NUM_NODES says " + std::to_string(facts_.step.nodes));
    }
    facts_.step.first_node = list.names.front();
  }

  const Environment& environment_;
  SlurmFacts facts_;
};

}  // namespace

SlurmFacts read_slurm(const Environment& environment) {
  return StepReader(environment).read();
}

int slurm_port(const SlurmStep& step) {
  constexpr std::uint64_t kPorts = 10000;
  return static_cast<int>(20000 + (step.job % kPorts + 997 * (step.step % kPorts)) % kPorts);
}

std::string slurm_run_id(const SlurmStep& step) {
  return "slurm-" + std::to_string(step.job) + "." + std::to_string(step.step);
}

}  // namespace ddp
