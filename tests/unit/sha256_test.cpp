#include "worker/fetch/sha256.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

// FIPS 180-2, appendix B, and the digest of nothing.
TEST(Sha256, GivesThePublishedDigests) {
  const Scratch scratch;
  scratch.write("empty", "");
  scratch.write("abc", "abc");
  scratch.write("million", std::string(1'000'000, 'a'));
  EXPECT_EQ(sha256_of(scratch.path() / "empty"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of(scratch.path() / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of(scratch.path() / "million"),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THROW(sha256_of(scratch.path() / "absent"), SystemError);
}

}  // namespace
}  // namespace ddp::worker
