// Any variables (one per line) as Slurm's: a problem, no step, or a step whose numbers fit.
#include "common/node/slurm_step.h"

#include <sstream>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddp::Environment environment;
  std::istringstream lines(ddp::fuzz::to_string(data, size));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t split = line.find('=');
    if (split != std::string::npos) environment[line.substr(0, split)] = line.substr(split + 1);
  }
  const ddp::SlurmFacts facts = ddp::read_slurm(environment);
  if (!facts.in_step || !facts.problem.empty()) return 0;
  const ddp::SlurmStep& step = facts.step;
  ddp::fuzz::require(step.node >= 0 && step.node < step.nodes, "a node of the step");
  ddp::fuzz::require(step.task >= 0 && step.task < step.tasks, "a task of the step");
  ddp::fuzz::require(step.task_here >= 0 && step.task_here < step.tasks_here, "a task of the node");
  ddp::fuzz::require(!step.first_node.empty() && step.gpus >= 0, "a first node");
  const int port = ddp::slurm_port(step);
  ddp::fuzz::require(port >= 20000 && port < 30000, "a port that nobody gets by chance");
  return 0;
}
