// A built-in net in training on one rank, as a job sets it up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fake_gpu_comparison.h"
#include "worker/model/model_factory.h"
#include "worker/model/norm.h"
#include "worker/train/registry.h"

namespace ddp::worker {

struct Net {
  const char* model;
  std::int64_t batch;
  std::shared_ptr<const Source> source;
  std::string task = "classification";
};

class NetFixture {
 public:
  NetFixture(const Net& net, Group& group, const at::Device& device, const AmpJob& amp = {})
      : task_(make_task(net)), fixture_(group, case_of(net, device, amp), *task_, net.source) {}

  TaskFixture& fixture() { return fixture_; }

 private:
  static std::unique_ptr<Task> make_task(const Net& net) {
    const Registry registry = built_in();
    Job job;
    job.model.name = net.model;
    job.task.name = net.task;
    if (net.task == "detection") job.loss.name = "detection";
    auto task = registry.tasks.at(net.task)({job, net.source->facts(), batch_norm(), registry});
    use_layout(task->model(), ModelJob::Layout::automatic);
    return task;
  }
  static Case case_of(const Net& net, const at::Device& device, const AmpJob& amp) {
    Case one;
    one.type = at::kFloat;
    one.size = net.source->facts().count;
    one.batch = net.batch;
    one.device = device;
    one.amp = amp;
    return one;
  }

  std::unique_ptr<Task> task_;
  TaskFixture fixture_;
};

}  // namespace ddp::worker
