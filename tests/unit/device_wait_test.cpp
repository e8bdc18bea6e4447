// Waits for the device go through Group::await_device, so that a lost peer ends them.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "common/error.h"
#include "ranks.h"
#include "tests/support/fake_gpu.h"
#include "worker/dist/default_stream.h"
#include "worker/train/step/meters.h"

namespace ddp::worker {
namespace {

/// Rank 0 of two. The other one is lost when a device was asked a hundred times.
class GroupWithoutPeers : public Group {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world_size() const override { return 2; }
  void all_reduce(at::Tensor&) override {}
  std::unique_ptr<PendingSum> start_all_reduce(at::Tensor) override { return {}; }
  void broadcast(at::Tensor&, int) override {}
  at::Tensor all_gather(const at::Tensor& tensor) override { return at::stack({tensor, tensor}); }
  void require_same(const std::string&, const std::string&) override {}
  void close() override {}
  void await_device(const std::string& during,
                    const std::function<bool()>& is_done) const override {
    for (int asked = 0; !is_done(); ++asked) {
      if (asked == 100) throw PeerError("lost a peer during " + during);
    }
  }
  [[nodiscard]] c10d::Store* store() const override { return nullptr; }
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group() const override { return {}; }
};

class NoTask : public Task {
 public:
  torch::nn::Module& model() override { return model_; }
  Outputs forward(const Batch&) override { return {}; }
  Loss loss(const Outputs&, const Batch&) override { return {}; }
  std::vector<NamedTensor> counts(const Outputs&, const Batch&) override { return {}; }

 private:
  torch::nn::Module model_;
};

/// Of two samples.
Pass pass_there(double loss) {
  Pass pass;
  pass.batch.input = at::zeros({2, 1}).to(fake_gpu());
  pass.loss.total = at::full({}, loss).to(fake_gpu());
  return pass;
}

TEST(DeviceWait, TheSumsOfAStepAreWaitedForAsTheGroupSays) {
  NoTask task;
  const GroupWithoutPeers group;
  PassSums learned;
  learned.add(task, pass_there(0.5));
  Meters meters(learned.names());
  meters.add(task, pass_there(0.5));
  meters.close_step(1);
  meters.add(task, pass_there(0.25));
  {
    const BusyFakeGpu busy;
    meters.close_step(2);
    const std::optional<Meters::Closed> first = meters.take(group, /*also_newest=*/false);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->sums.loss, 1);
    EXPECT_FALSE(meters.take(group, /*also_newest=*/false)) << "it is left for the next call";
    try {
      (void)meters.take(group, /*also_newest=*/true);
      FAIL() << "the device is not done";
    } catch (const PeerError& error) {
      EXPECT_STREQ(error.what(), "lost a peer during step 2");
    }
  }
}

TEST(DeviceWait, StreamIsAwaitedThroughTheGroup) {
  const GroupWithoutPeers group;
  EXPECT_NO_THROW(await_stream(group, fake_gpu(), "a save"));
  const BusyFakeGpu busy;
  EXPECT_THROW(await_stream(group, fake_gpu(), "a save"), PeerError);
  EXPECT_NO_THROW(await_stream(group, at::kCPU, "a save"));
}

TEST(DeviceWait, GlooRefusesTensorsOfASideStream) {
  const at::Tensor there = at::ones({3}).to(fake_gpu());
  const c10::impl::VirtualGuardImpl device(fake_gpu().type());
  EXPECT_NO_THROW(require_default_stream({at::ones({3}), there}));
  const c10::StreamGuard side(device.getNewStream(fake_gpu()));
  EXPECT_NO_THROW(require_default_stream({at::ones({3})}));
  EXPECT_THROW(require_default_stream({at::ones({3}), there}), std::logic_error);
}

TEST(DeviceWait, TheCollectivesOfGlooRefuseTensorsOfASideStream) {
  const auto refused = on_ranks(2, [](Group& group) {
    const c10::intrusive_ptr<c10d::Backend> gloo = group.process_group()->getBackend(at::kCPU);
    const c10::impl::VirtualGuardImpl device(fake_gpu().type());
    const c10::StreamGuard side(device.getNewStream(fake_gpu()));
    std::vector<at::Tensor> there{at::ones({3}, fake_gpu())};
    std::vector<std::vector<at::Tensor>> all{{at::ones_like(there[0]), at::ones_like(there[0])}};
    EXPECT_THROW((void)gloo->allreduce(there), std::logic_error);
    EXPECT_THROW((void)gloo->broadcast(there), std::logic_error);
    EXPECT_THROW((void)gloo->allgather(all, there), std::logic_error);
    std::vector<at::Tensor> host{at::full({1}, group.rank(), at::kFloat)};
    gloo->allreduce(host)->wait();
    return host[0].item<float>();
  });
  EXPECT_EQ(refused, (std::vector<float>{1, 1})) << "those of the host are taken there";
}

/// Its backward meets the other ranks, as that of synchronised batch norm does.
struct Meet : torch::autograd::Function<Meet> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            Group* group) {
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& dy) {
    auto& group = *reinterpret_cast<Group*>(context->saved_data["group"].toInt());
    at::Tensor sum = dy[0].to(at::kCPU);
    group.all_reduce(sum);
    return {sum.to(dy[0].device()), {}};
  }
};

TEST(DeviceWait, RanksThatAreThreadsMeetInTheirBackward) {
  const auto gradients = on_ranks(2, [](Group& group) {
    const at::Tensor one = at::ones({3}).to(fake_gpu());
    const at::Tensor x = at::zeros({3}).to(fake_gpu()).requires_grad_();
    return backward_here(Meet::apply(x, &group), one).at(0).to(at::kCPU);
  });
  for (const at::Tensor& gradient : gradients)
    EXPECT_TRUE(gradient.equal(at::full({3}, 2.0))) << gradient;
}

}  // namespace
}  // namespace ddp::worker
