// A steady optimizer step on a GPU: nothing in it makes the host wait for a stream (label gpu).
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "tests/unit/step_fixture.h"
#include "worker/data/loading/upload.h"
#include "worker/dist/cuda_module.h"
#include "worker/dist/device.h"
#include "worker/dist/gloo_group.h"
#include "worker/dist/single_process_group.h"

namespace ddp::worker {
namespace {

constexpr std::int64_t kWarmUp = 3;
constexpr std::int64_t kSteps = 6;  // three epochs of two

/// As long as it lives.
class ForbiddenHostSync {
 public:
  explicit ForbiddenHostSync(const CudaModule& cuda) : cuda_(cuda) { cuda_.forbid_host_sync(true); }
  ForbiddenHostSync(const ForbiddenHostSync&) = delete;
  ForbiddenHostSync& operator=(const ForbiddenHostSync&) = delete;
  ~ForbiddenHostSync() { cuda_.forbid_host_sync(false); }

 private:
  const CudaModule& cuda_;
};

Device choose_gpu() {
  return open_device(DeviceJob{}, WorkerIdentity{}, read_environment());
}

std::vector<Case> cases_on(const at::Device& device) {
  const Case plain{OptimizerJob::Name::sgd, false, 1, 256, device, at::kFloat};
  Case all = plain;
  all.optimizer = OptimizerJob::Name::adamw;
  all.has_weight = true;
  all.accumulate = 2;
  all.has_extras = true;
  Case scaled = plain;  // a dynamic loss scale, and float32 masters
  scaled.amp.level = 2;
  scaled.amp.type = AmpJob::Type::fp16;
  return {plain, all, scaled};
}

void train_without_a_wait(Group& group, const Device& gpu) {
  for (const Case& one : cases_on(gpu.device)) {
    StepFixture fixture(group, one);
    for (std::int64_t step = 0; step < kWarmUp; ++step)
      (void)fixture.run_and_hear(step);
    const ForbiddenHostSync forbidden(*gpu.cuda);
    std::int64_t heard = 0;
    for (std::int64_t step = kWarmUp; step < kSteps; ++step) {
      ASSERT_NO_THROW(heard = fixture.run_and_hear(step)->step) << "step " << step;
    }
    EXPECT_EQ(heard, kSteps - 2) << "the sums of the steps have come";
    EXPECT_THROW((void)at::ones({}, gpu.device).item<float>(), c10::Error) << "the test can fail";
  }
}

TEST(Gpu, NothingInASteadyStepMakesTheHostWait) {
  const Device gpu = choose_gpu();
  ASSERT_NE(gpu.cuda, nullptr) << gpu.name;
  const std::unique_ptr<Group> alone = single_process_group();
  train_without_a_wait(*alone, gpu);
}

TEST(Gpu, NorWithNccl) {
  GlooOptions options;
  options.device = choose_gpu();
  ASSERT_TRUE(options.device.nccl) << options.device.name;
  options.store = c10::make_intrusive<c10d::HashStore>();
  options.local_address = "127.0.0.1";
  options.join_timeout = std::chrono::seconds(60);
  options.collective_timeout = std::chrono::seconds(60);
  const std::unique_ptr<Group> group = make_gloo_group(options);
  train_without_a_wait(*group, options.device);
  group->close();
}

TEST(Gpu, ABatchArrivesAsItWas) {
  const Device gpu = choose_gpu();
  ASSERT_NE(gpu.cuda, nullptr) << gpu.name;
  Batch batch;
  batch.input = at::rand({64, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
  batch.targets = {{at::arange(64), {}}, {at::rand({0, 5}), at::zeros({64}, at::kLong)}};
  batch.indices = {1, 2, 3};
  const Batch there = [&] {
    const ForbiddenHostSync forbidden(*gpu.cuda);
    return batch.to(gpu.device);
  }();
  const Batch back = there.to(at::kCPU);
  EXPECT_EQ(there.input.device(), gpu.device);
  EXPECT_EQ(there.input.strides(), batch.input.strides());
  EXPECT_TRUE(back.input.equal(batch.input));
  ASSERT_EQ(back.targets.size(), 2U);
  EXPECT_TRUE(back.targets[0].values.equal(batch.targets[0].values));
  EXPECT_FALSE(back.targets[0].rows.defined());
  EXPECT_TRUE(back.targets[1].values.equal(batch.targets[1].values));
  EXPECT_TRUE(back.targets[1].rows.equal(batch.targets[1].rows));
  EXPECT_EQ(back.indices, batch.indices);
}

Batch batch_of(double value) {
  Batch batch;
  batch.input = at::full({64, 3, 64, 64}, value, at::TensorOptions().pinned_memory(true));
  batch.targets = {{at::full({64}, value), {}}};
  return batch;
}

TEST(Gpu, ABatchIsSentBesideWhatIsComputed) {
  const Device gpu = choose_gpu();
  ASSERT_NE(gpu.cuda, nullptr) << gpu.name;
  const c10::impl::VirtualGuardImpl streams(gpu.device.type());
  const Upload upload(gpu.device);
  (void)upload.send(batch_of(0))();  // memory and streams are there from now on
  const at::Tensor large = at::rand({4096, 4096}, gpu.device);
  c10::Event computed(gpu.device.type());
  FinishCopy finish_copy;
  {
    const ForbiddenHostSync forbidden(*gpu.cuda);
    for (int i = 0; i < 500; ++i)
      (void)large.mm(large);
    computed.record(streams.getStream(gpu.device));
    finish_copy = upload.send(batch_of(7));
  }
  const c10::StreamGuard other(streams.getStreamFromGlobalPool(gpu.device));
  EXPECT_TRUE(finish_copy().input.to(at::kCPU).equal(batch_of(7).input));
  EXPECT_FALSE(computed.query()) << "it is there before what was asked for first is done";
}

TEST(Gpu, NoMemoryOfABatchIsGivenOutTooEarly) {
  const Device gpu = choose_gpu();
  ASSERT_NE(gpu.cuda, nullptr) << gpu.name;
  const Upload upload(gpu.device);
  at::Tensor sum = at::zeros({}, at::TensorOptions(at::kDouble).device(gpu.device));
  const at::Tensor large = at::rand({2048, 2048}, gpu.device);
  constexpr int kBatches = 200;
  for (int i = 1; i <= kBatches; ++i) {
    // The host is far ahead: it lets go of batches that the device has not seen yet.
    const FinishCopy finish_copy = upload.send(batch_of(i));
    (void)large.mm(large);
    const Batch batch = finish_copy();
    sum += batch.input.mean(at::kDouble) + batch.targets[0].values.mean(at::kDouble);
  }
  EXPECT_EQ(sum.item<double>(), kBatches * (kBatches + 1));
}

TEST(Gpu, ALoaderThatSendsGivesTheSameBatches) {
  const Device gpu = choose_gpu();
  ASSERT_NE(gpu.cuda, nullptr) << gpu.name;
  const at::Tensor plain = load_inputs({});
  for (const int threads : {0, 3}) {
    LoaderOptions options{.threads = threads, .send = send_to(gpu.device), .is_pinned = true};
    EXPECT_TRUE(load_inputs(options).equal(plain)) << threads;
  }
}

}  // namespace
}  // namespace ddp::worker
