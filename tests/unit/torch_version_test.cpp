#include "worker/train/torch_version.h"

#include <gmock/gmock.h>

namespace ddp::worker {
namespace {

using ::testing::HasSubstr;

TEST(TorchVersion, HeadersAndLibraryAgree) {
  EXPECT_NO_THROW(check_torch_version());
  EXPECT_THAT(version_text(), HasSubstr("LibTorch " + torch_version()));
}

}  // namespace
}  // namespace ddp::worker
