// Which sets lie on the device, and what is said of those that do not.
#include "worker/train/loader_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "step_fixture.h"
#include "tests/support/fake_gpu.h"
#include "worker/data/loading/resident_loader.h"
#include "worker/train/registry.h"

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;
using Wanted = DataJob::Resident;

/// Its samples are those of a set in memory.
class Files : public Source {
 public:
  [[nodiscard]] const DataFacts& facts() const override { return source_->facts(); }
  void read(std::int64_t index, Sample& into) const override { source_->read(index, into); }

 private:
  std::shared_ptr<const Source> source_ = draw_source(8);
};

std::unique_ptr<BatchLoader> choose(Wanted wanted,
                                    at::Device device,
                                    const std::vector<std::string>& augments = {},
                                    std::shared_ptr<const Source> source = draw_source(8)) {
  DataJob job;
  job.resident = wanted;
  for (const std::string& name : augments)
    job.augment.push_back({name, Args("data.augment." + name, {})});
  LoaderOptions options{.augments = make_augments(built_in(), job, source->facts())};
  return make_loader({job, device}, std::move(source), std::move(options));
}

bool is_resident(const std::unique_ptr<BatchLoader>& loader) {
  return dynamic_cast<const ResidentLoader*>(loader.get()) != nullptr;
}

template <typename... Arguments>
std::string refusal_of(const Arguments&... arguments) {
  try {
    (void)choose(Wanted::always, arguments...);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(LoaderChoice, AutoIsForDevicesBesideTheCpu) {
  EXPECT_FALSE(is_resident(choose(Wanted::automatic, at::kCPU)));
  EXPECT_TRUE(is_resident(choose(Wanted::automatic, fake_gpu())));
  EXPECT_TRUE(is_resident(choose(Wanted::automatic, fake_gpu(), {"flip", "cutout"})));
  EXPECT_TRUE(is_resident(choose(Wanted::always, at::kCPU)));
  EXPECT_FALSE(is_resident(choose(Wanted::never, fake_gpu())));
}

TEST(LoaderChoice, AutoLoadsWhatADeviceCannotMake) {
  EXPECT_FALSE(is_resident(choose(Wanted::automatic, fake_gpu(), {"flip", "rotate"})));
  EXPECT_FALSE(
      is_resident(choose(Wanted::automatic, fake_gpu(), {}, std::make_shared<const Files>())));
}

TEST(LoaderChoice, ImpossibleResidenceIsRefusedWhenDemanded) {
  EXPECT_THAT(refusal_of(at::Device(at::kCPU), std::vector<std::string>{"flip", "rotate"}),
              HasSubstr("data.resident: drawn cannot lie on cpu: data.augment has rotate, and a "
                        "device makes center-crop, crop, cutout (64 squares at most), flip and "
                        "flip-vertical. Take auto or false."));
  EXPECT_THAT(
      refusal_of(at::Device(at::kCPU), std::vector<std::string>{}, std::make_shared<const Files>()),
      HasSubstr("its images do not all lie in memory as bytes"));
}

TEST(LoaderChoice, ASetTakesATenthOfTheFreeMemoryUnlessMoreIsDemanded) {
  // An image of 2 x 3 pixels takes 3 x 4 bytes and a label, and 6 bytes while it is copied.
  constexpr std::int64_t kImage = 3 * 4 + 8 + 6;
  const auto images_of = [](std::int64_t bytes) { return draw_source(bytes / kImage); };
  const std::int64_t free = kFakeGpuFreeBytes;
  EXPECT_TRUE(is_resident(choose(Wanted::automatic, fake_gpu(), {}, images_of(free / 10))));
  EXPECT_FALSE(
      is_resident(choose(Wanted::automatic, fake_gpu(), {}, images_of(free / 10 + kImage))));
  EXPECT_TRUE(is_resident(choose(Wanted::always, fake_gpu(), {}, images_of(free))));
  EXPECT_THAT(refusal_of(fake_gpu(), std::vector<std::string>{}, images_of(free + kImage)),
              HasSubstr("it takes 1.0 MiB, more than the 1.0 MiB that are free there"));
}

TEST(LoaderChoice, AnotherMayHaveTakenTheMemoryThatWasFree) {
  const FullFakeGpu full;
  std::unique_ptr<BatchLoader> loader;
  ::testing::internal::CaptureStdout();
  EXPECT_NO_THROW(loader = choose(Wanted::automatic, fake_gpu()));
  const std::string log = ::testing::internal::GetCapturedStdout();
  const std::string why = "drawn cannot lie on " + fake_gpu().str() + ": fake GPU out of memory. ";
  EXPECT_NE(dynamic_cast<const Loader*>(loader.get()), nullptr);
  EXPECT_THAT(log, HasSubstr("data.resident: auto: " + why + "Its batches are loaded."));
  EXPECT_THAT(refusal_of(fake_gpu()), HasSubstr("data.resident: " + why + "Take auto or false."));
}

TEST(LoaderChoice, AugmentationsNeedImagesAsInALoader) {
  const std::shared_ptr<const Source> four = draw_source(8, {4, 2, 3, 4});
  EXPECT_TRUE(is_resident(choose(Wanted::automatic, fake_gpu(), {}, four)));
  EXPECT_FALSE(is_resident(choose(Wanted::automatic, fake_gpu(), {"flip"}, four)));
  EXPECT_THAT(refusal_of(fake_gpu(), std::vector<std::string>{"flip"}, four),
              HasSubstr("data.augment is for images of 1 or 3 channels, and a sample is 4x2x3"));
}

TEST(LoaderChoice, DemandedResidenceIsCheckedWithoutACopy) {
  const DeviceCounts before = fake_gpu_counts();
  DataJob job;
  job.augment.push_back({"rotate", Args("data.augment.rotate", {})});
  const std::shared_ptr<const Source> source = draw_source(8);
  const std::vector<Augment> augments = make_augments(built_in(), job, source->facts());
  EXPECT_NO_THROW(require_residence({job, fake_gpu()}, *source, augments));
  job.resident = Wanted::always;
  EXPECT_THROW(require_residence({job, fake_gpu()}, *source, augments), UsageError);
  EXPECT_NO_THROW(require_residence({job, fake_gpu()}, *source, {}));
  EXPECT_EQ((fake_gpu_counts() - before).allocations, 0);
}

}  // namespace
}  // namespace ddp::worker
