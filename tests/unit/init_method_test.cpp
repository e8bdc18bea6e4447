#include "worker/plan/init_method.h"

#include <gmock/gmock.h>

#include "common/error.h"
#include "common/node/identity.h"
#include "worker/plan/options.h"

namespace ddp::worker {
namespace {

using testing::HasSubstr;

std::string refusal(const Environment& environment, const InitMethod& method) {
  try {
    (void)read_identity(with_init_method(environment, method));
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(InitMethod, EnvironmentIsKeptWithoutAnInitMethod) {
  const Environment environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_EQ(with_init_method(environment, {}), environment);
}

TEST(InitMethod, TcpWithRankAndWorldSizeIsAnIdentity) {
  const WorkerIdentity self =
      read_identity(with_init_method({}, {"tcp://10.0.0.1:4000", "1", "3"}));
  EXPECT_EQ(self.rank, 1);
  EXPECT_EQ(self.world_size, 3);
  EXPECT_EQ(self.master_addr, "10.0.0.1");
  EXPECT_EQ(self.master_port, 4000);
  EXPECT_FALSE(self.agent_store) << "rank 0 serves the store";
  EXPECT_EQ(read_identity(with_init_method({}, {"tcp://[::1]:4000", "0", "2"})).master_addr, "::1");
}

TEST(InitMethod, TheEnvironmentMayHoldTheRank) {
  const Environment environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}};
  const WorkerIdentity self =
      read_identity(with_init_method(environment, {"tcp://a:4000", {}, {}}));
  EXPECT_EQ(self.rank, 1);
  EXPECT_EQ(self.local_rank, 1);
  const Environment mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                        {"OMPI_COMM_WORLD_SIZE", "3"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  EXPECT_EQ(read_identity(with_init_method(mpi, {"tcp://a:4000", {}, {}})).rank, 2);
}

TEST(InitMethod, FlagsBeatTheEnvironment) {
  const Environment environment{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  const WorkerIdentity self = read_identity(with_init_method(environment, {"env://", "2", "4"}));
  EXPECT_EQ(self.rank, 2);
  EXPECT_EQ(self.world_size, 4);
  EXPECT_EQ(self.master_addr, "a");
}

TEST(InitMethod, WithoutARankTheCommandIsShown) {
  for (const char* const url : {"tcp://a:4000", "env://"}) {
    EXPECT_THAT(refusal({}, {url, {}, {}}),
                HasSubstr("--init-method tcp://HOST:29500 --rank 0 --world-size 2"))
        << url;
  }
}

TEST(InitMethod, HalfARankIsRefused) {
  EXPECT_THAT(refusal({}, {"tcp://a:1", "0", {}}), HasSubstr("--rank without --world-size"));
  EXPECT_THAT(refusal({}, {{}, {}, "2"}), HasSubstr("--world-size without --rank"));
}

TEST(InitMethod, OtherMeetingPlacesAreRefusedWithWhatToType) {
  EXPECT_THAT(refusal({}, {"file:///tmp/x", "0", "2"}), HasSubstr("a file is not a meeting place"));
  EXPECT_THAT(refusal({}, {"mpi://", "0", "2"}), HasSubstr("neither env:// nor tcp://"));
  for (const char* const url : {"tcp://", "tcp://a", "tcp://:1", "tcp://a:"})
    EXPECT_THAT(refusal({}, {url, "0", "2"}), HasSubstr("not tcp://HOST:PORT")) << url;
  EXPECT_THAT(refusal({}, {"tcp://a:b", "0", "2"}), HasSubstr("MASTER_PORT=b"));
}

TEST(InitMethod, TheFlagsAreRead) {
  const char* const argv[] = {
      "ddp-worker", "job.yaml", "--init-method", "tcp://a:1", "--rank=1", "--world-size", "2"};
  const Options options = parse_options(7, argv);
  EXPECT_EQ(options.init_method, (InitMethod{"tcp://a:1", "1", "2"}));
}

TEST(InitMethod, ARankThatIsPlayedAloneIsOneOfAWorldAndMeetsNobody) {
  const char* const argv[] = {"ddp-worker", "job.yaml", "--as-rank", "3/8", "--rank=1"};
  EXPECT_EQ(parse_options(4, argv).as_rank, (AsRank{3, 8}));
  EXPECT_THROW((void)parse_options(5, argv), UsageError);
  for (const char* const text : {"", "3", "3/", "/8", "8/8", "-1/8", "3/8x", "a/b", "3/8/1"}) {
    const char* const wrong[] = {"ddp-worker", "job.yaml", "--as-rank", text};
    EXPECT_THROW((void)parse_options(4, wrong), UsageError) << text;
  }
}

}  // namespace
}  // namespace ddp::worker
