// How many operators a steady step launches, as a GPU would be asked for them. Python's side is
// tests/bench/launches.py.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "fake_gpu_comparison.h"
#include "net_fixture.h"
#include "ranks.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/fake_gpu_backend.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

/// Images of zeros with two boxes each.
class BoxSource : public Source {
 public:
  BoxSource(std::int64_t count, std::int64_t side) {
    facts_.name = "boxes";
    facts_.count = count;
    facts_.shape = {3, side, side};
    facts_.classes = 80;
    facts_.mean = {0, 0, 0};
    facts_.standard_deviation = {1, 1, 1};
    facts_.has_boxes = true;
  }

  [[nodiscard]] const DataFacts& facts() const override { return facts_; }
  void read(std::int64_t index, Sample& into) const override {
    const std::int64_t side = facts_.shape[1];
    const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * side * side));
    const std::vector<float> boxes{1, 4, 4, 40, 44, 7, 20, 24, 50, 60};
    into.index = index;
    into.input.assign<std::uint8_t>(facts_.shape, pixels);
    into.targets.resize(1);
    into.targets[0].assign<float>({2, 5}, boxes);
  }

 private:
  DataFacts facts_;
};

struct Counted {
  Net net;
  std::size_t most_besides;  // launches of a step besides forward, loss and backward
  std::size_t most_of_two;   // launches of a step of each of two ranks
};

std::vector<Counted> nets() {
  return {{{"convnet", 16, draw_source(320, {1, 28, 28, 10})}, 3, 39},
          {{"resnet18", 4, draw_source(80, {3, 32, 32, 10})}, 3, 209},
          {{"yolov8n", 2, std::make_shared<BoxSource>(40, 64), "detection"}, 6, 938}};
}

struct Launches {
  std::vector<std::string> pass;  // forward, loss and backward alone
  std::vector<std::string> step;
};

Launches launches_alone(const Net& net) {
  const std::unique_ptr<Group> alone = single_process_group();
  NetFixture one(net, *alone, fake_gpu());
  for (std::int64_t step = 0; step < kWarmUp; ++step)
    (void)one.fixture().run_and_hear(step);
  Launches launches;
  {
    const LaunchRecord record;
    (void)one.fixture().run_and_hear(kWarmUp);
    launches.step = record.names();
  }
  std::vector<std::int64_t> samples(static_cast<std::size_t>(net.batch));
  std::iota(samples.begin(), samples.end(), 0);
  const LaunchRecord record;
  one.fixture().pass_alone(samples);
  launches.pass = record.names();
  return launches;
}

/// The operators that `step` has more often than `pass`, in a line.
std::string more_than(const std::vector<std::string>& step, const std::vector<std::string>& pass) {
  std::map<std::string, int> more;
  for (const std::string& name : step)
    ++more[name];
  for (const std::string& name : pass)
    --more[name];
  std::string text;
  for (const auto& [name, count] : more) {
    if (count != 0) text += " " + name + " " + std::to_string(count);
  }
  return text;
}

TEST(FakeGpuLaunches, AStepLaunchesLittleMoreThanForwardLossAndBackward) {
  for (const auto& [net, most_besides, most_of_two] : nets()) {
    const Launches launches = launches_alone(net);
    const std::size_t more = launches.step.size() - launches.pass.size();
    std::printf(
        "%s: %zu launches in a step, %zu of them in forward, loss and backward; besides:%s\n",
        net.model,
        launches.step.size(),
        launches.pass.size(),
        more_than(launches.step, launches.pass).c_str());
    EXPECT_LE(more, most_besides) << net.model;
  }
}

/// On each of two ranks.
std::size_t launches_of_two(const Net& net) {
  std::unique_ptr<LaunchRecord> record;
  std::vector<std::string> names;
  (void)on_ranks(2, [&](Group& group) {
    const at::Device device = fake_gpu(group.rank());
    const c10::DeviceGuard guard(device);
    connect_fake_gpus(group);
    NetFixture one(net, group, device);
    for (std::int64_t step = 0; step < kWarmUp; ++step)
      (void)one.fixture().run_and_hear(step);
    meet(group);
    if (group.rank() == 0) record = std::make_unique<LaunchRecord>();
    meet(group);
    (void)one.fixture().run_and_hear(kWarmUp);
    meet(group);
    if (group.rank() == 0) {
      names = record->names();
      record.reset();
    }
    meet(group);
    return 0;
  });
  return names.size() / 2;
}

TEST(FakeGpuLaunches, AnotherRankAddsOneForEachGradient) {
  for (const auto& [net, most_besides, most_of_two] : nets()) {
    const std::size_t launches = launches_of_two(net);
    std::printf("%s: %zu launches in a step of each of two ranks\n", net.model, launches);
    EXPECT_LE(launches, most_of_two) << net.model;
  }
}

}  // namespace
}  // namespace ddp::worker
