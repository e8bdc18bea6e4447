// A worker of a user's own whose rank 1 fails in its fifth step, where FAIL says: "forward",
// "text", "backward" (of an autograd function), "tensor-hook", "loss" or "epoch-hook" throw;
// "shapes", "scalar", "metric", "augment" and "step-hook" let LibTorch throw, and "memory", too;
// "range" and "sample" (in the loader's threads) let the standard library; "usage" throws an error
// of ours; "thread", "threads" (many at once), "peer-thread", "int-thread" and "noexcept" end it by
// std::terminate; "device" does as a GPU that is lost; "null", "null-thread" and "deep" crash, by a
// pointer to nothing and by an endless recursion. At "data" it throws while it loads its data, at
// "data-kill" it is killed.
#include <torch/torch.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/node/environment.h"
#include "worker/data/sets/memory_source.h"
#include "worker/program.h"

using namespace ddp::worker;

namespace failing {

/// A type of the program's own.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace failing

namespace {

constexpr int kStep = 5;

/// Where rank 1 fails; empty on the others.
std::string failure() {
  const ddp::Environment environment = ddp::read_environment();
  using ddp::find_variable;
  return find_variable(environment, "RANK") == "1" ? find_variable(environment, "FAIL").value_or("")
                                                   : "";
}

[[noreturn]] void refuse(const std::string& where) {
  throw failing::Refusal("no " + where + " in step " + std::to_string(kStep));
}

void terminate_without_a_way_out() noexcept {
  refuse("way out");
}

/// In threads, as libraries have them. Ends the process.
void fail_in_threads(int count, void (*fail)()) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back(fail);
}

void write_to_nowhere() {
  static volatile int* nowhere = nullptr;
  *nowhere = kStep;
}

/// Until the stack is full.
int go_deeper(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : go_deeper(depth + 1) + room[0];
}

/// LibTorch throws.
void add_what_does_not_fit() {
  (void)(at::ones({2}) + at::ones({3}));
}

/// Of the samples that rank 1 has read, from the tenth on.
void augment(Sample& /*sample*/, Random& /*random*/, const Source& /*source*/) {
  static int samples = 0;
  if (++samples == 10 && failure() == "augment") add_what_does_not_fit();
}

class FailingMetric : public Metric {
 public:
  void update(const Outputs& /*outputs*/, const Batch& /*batch*/) override {
    if (failure() == "metric") add_what_does_not_fit();
  }
  void merge(Group& /*group*/) override {}
  [[nodiscard]] NamedValues values() const override { return {{"nothing", 0}}; }
};

/// The standard library throws.
int take_what_is_not_there() {
  const std::vector<int> one{1};
  return one.at(kStep);
}

/// Of whose samples none can be read from the tenth on: by many, while the first error is carried
/// to anyone who waits for the batch.
class FailingSource : public Source {
 public:
  explicit FailingSource(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  [[nodiscard]] const DataFacts& facts() const override { return source_->facts(); }
  void read(std::int64_t index, Sample& into) const override {
    if (++samples_ >= 10 && failure() == "sample") (void)take_what_is_not_there();
    source_->read(index, into);
  }

 private:
  std::shared_ptr<const Source> source_;
  mutable std::atomic<int> samples_{0};
};

struct Identity : torch::autograd::Function<Identity> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& /*dy*/) {
    refuse("backward");
  }
};

[[noreturn]] void lose_the_device(const std::string& text) {
  constexpr int kAssert = 710;
  throw c10::AcceleratorError({"", "", 0}, kAssert, "CUDA error: " + text + "\nSearch for more.");
}

/// As a tensor of a GPU that is freed.
struct OnTheDevice {
  ~OnTheDevice() { lose_the_device("all CUDA-capable devices are busy or unavailable"); }
};

class FailingModel : public ImageModel {
 public:
  explicit FailingModel(const ModelRequest& request)
      : linear_(register_module("linear",
                                torch::nn::Linear(request.channels * request.height * request.width,
                                                  request.classes))) {}

  at::Tensor forward(at::Tensor x) override {
    if (failure() == "layer" && steps_ + 1 >= kStep) x = x.slice(2, 0, 5);
    at::Tensor scores = linear_(x.flatten(1));
    if (!is_training() || ++steps_ != kStep) return scores;
    const std::string where = failure();
    if (where == "forward") throw std::runtime_error("no forward in step 5");
    if (where == "text") throw std::string("no text in step 5");
    if (where == "range") (void)take_what_is_not_there();
    if (where == "usage") throw ddp::UsageError("model.args: there are no five steps in it");
    if (where == "shapes") (void)x.flatten(1).matmul(at::ones({3, 5}));
    if (where == "memory") (void)at::empty({std::int64_t{1} << 60});
    if (where == "backward") return Identity::apply(scores);
    if (where == "tensor-hook") {
      scores.register_hook([](const at::Tensor& /*gradient*/) { refuse("tensor hook"); });
    }
    if (where == "thread") fail_in_threads(1, [] { refuse("thread"); });
    if (where == "threads") fail_in_threads(32, [] { refuse("thread"); });
    if (where == "int-thread") fail_in_threads(1, [] { throw 42; });
    if (where == "peer-thread") {
      fail_in_threads(1, [] { C10_THROW_ERROR(DistBackendError, "the watchdog has seen enough"); });
    }
    if (where == "null") write_to_nowhere();
    if (where == "null-thread") fail_in_threads(1, write_to_nowhere);
    if (where == "deep") steps_ = go_deeper(0);
    if (where == "noexcept") terminate_without_a_way_out();
    if (where == "device") {
      const OnTheDevice tensor;
      lose_the_device("device-side assert triggered");
    }
    return scores;
  }

 private:
  torch::nn::Linear linear_;
  int steps_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Registry registry = built_in();
  registry.models["failing"] = [](const ModelRequest& request) {
    return std::make_shared<FailingModel>(request);
  };
  const LossFactory cross_entropy = registry.losses.at("cross-entropy");
  registry.losses["cross-entropy"] = [cross_entropy](const LossJob& job) {
    return [criterion = cross_entropy(job), steps = 0](const at::Tensor& scores,
                                                       const at::Tensor& labels) mutable {
      if (++steps == kStep && failure() == "loss") refuse("loss");
      Loss loss = criterion(scores, labels);
      if (steps == kStep && failure() == "scalar") loss.total = loss.total.expand({2});
      return loss;
    };
  };
  registry.augments["failing"] = [](const AugmentRequest& /*request*/) { return Augment(augment); };
  registry.metrics["failing"] = [](const DataFacts& /*facts*/) {
    return std::make_unique<FailingMetric>();
  };
  registry.sources["failing"] = [](const DataRequest& request) {
    if (failure() == "data") refuse("data");
    if (failure() == "data-kill") std::raise(SIGKILL);
    Sources sources = make_sources(
        load_data_set({.name = "digits", .train_size = request.train_size, .test_size = 20}));
    sources.train = std::make_shared<FailingSource>(sources.train);
    return sources;
  };
  registry.on_step.push_back([](const StepEvent& event) {
    if (event.step == kStep && failure() == "step-hook") add_what_does_not_fit();
  });
  registry.on_epoch.push_back([](const EpochEvent& /*event*/) {
    if (failure() == "epoch-hook") refuse("epoch hook");
  });
  run(argc, argv, registry);
}
