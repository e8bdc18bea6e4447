// Bindings on an invented node: two sockets of two NUMA nodes each, each of two core complexes of
// two cores with two threads. CPU n + 16 is the second thread of CPU n's core.
#include "launcher/plan/start/numa.h"
#include "common/text/join_words.h"

#include <gmock/gmock.h>

#include "common/error.h"

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Sets = std::vector<std::string>;

constexpr int kCores = 16;

std::vector<CpuPlace> two_sockets() {
  std::vector<CpuPlace> places;
  for (int cpu = 0; cpu < 2 * kCores; ++cpu) {
    const int core = cpu % kCores;
    places.push_back({cpu, core / 4, core / 8, core, core / 2 * 2});
  }
  return places;
}

std::vector<CpuPlace> only(const std::vector<int>& cpus) {
  std::vector<CpuPlace> places;
  for (const CpuPlace& place : two_sockets()) {
    if (std::find(cpus.begin(), cpus.end(), place.cpu) != cpus.end()) places.push_back(place);
  }
  return places;
}

Sets sets(const std::string& mode,
          int workers,
          const std::vector<int>& gpu_nodes,
          const std::vector<CpuPlace>& places = two_sockets()) {
  Sets texts;
  for (const auto& cpus : bind_workers(mode, places, workers, gpu_nodes).cpus)
    texts.push_back(join_ranges(cpus));
  return texts;
}

std::string refusal(const std::string& mode,
                    int workers,
                    const std::vector<int>& gpu_nodes,
                    const std::vector<CpuPlace>& places) {
  try {
    (void)bind_workers(mode, places, workers, gpu_nodes);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Numa, NodeGivesAllCpusOfTheGpusNode) {
  EXPECT_THAT(sets("node", 3, {3, 0, 0, 1}), ElementsAre("12-15,28-31", "0-3,16-19", "0-3,16-19"));
}

TEST(Numa, SocketGivesAllNodesOfTheSocket) {
  EXPECT_THAT(sets("socket", 2, {1, 2}), ElementsAre("0-7,16-23", "8-15,24-31"));
}

TEST(Numa, ExclusiveDividesTheCoresAmongTheGpusOfTheNode) {
  EXPECT_THAT(sets("exclusive", 3, {1, 0, 1}), ElementsAre("4-5,20-21", "0-3,16-19", "6-7,22-23"));
  // Four cores for three GPUs: the first gets one more. A GPU without a worker keeps its share.
  EXPECT_THAT(sets("exclusive", 2, {0, 0, 0}), ElementsAre("0-1,16-17", "2,18"));
}

TEST(Numa, ExclusiveIsRefusedWhenCoresDoNotSuffice) {
  EXPECT_THAT(refusal("exclusive", 5, {0, 0, 0, 0, 0}, two_sockets()),
              HasSubstr("NUMA node 0 has 4 physical cores that we may use, for 5 shares"));
}

TEST(Numa, CoreComplexesAreGivenInTurn) {
  EXPECT_THAT(sets("core-complex", 3, {0, 0, 0}),
              ElementsAre("0-1,16-17", "2-3,18-19", "0-1,16-17"));
  // The one of which we may use more comes first.
  EXPECT_THAT(sets("core-complex", 2, {0, 0}, only({0, 2, 3})), ElementsAre("2-3", "0"));
}

TEST(Numa, OurOwnMaskIsTheLimit) {
  EXPECT_THAT(sets("node", 1, {0}, only({1, 2, 5})), ElementsAre("1-2"));
  EXPECT_THAT(refusal("node", 1, {3}, only({1, 2, 5})),
              HasSubstr("worker 0 would get no CPU: none of NUMA node 3 is in our own affinity"));
}

TEST(Numa, WithoutGpusWorkersAreSpreadOverTheNodes) {
  EXPECT_THAT(sets("node", 2, {}), ElementsAre("0-3,16-19", "8-11,24-27"));
  EXPECT_THAT(sets("node", 4, {}),
              ElementsAre("0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"));
  EXPECT_THAT(sets("exclusive", 8, {}),
              ElementsAre("0-1,16-17",
                          "2-3,18-19",
                          "4-5,20-21",
                          "6-7,22-23",
                          "8-9,24-25",
                          "10-11,26-27",
                          "12-13,28-29",
                          "14-15,30-31"));
  EXPECT_EQ(bind_workers("node", two_sockets(), 2, {}).note,
            "no GPU is visible; 2 workers are spread over 4 NUMA nodes");
  EXPECT_EQ(bind_workers("node", two_sockets(), 2, {0}).note,
            "1 visible GPUs are too few; 2 workers are spread over 4 NUMA nodes");
  EXPECT_EQ(bind_workers("node", two_sockets(), 1, {0}).note, "");
}

TEST(Numa, UnknownNodesOfGpusDoNotMatterOnOneNode) {
  EXPECT_EQ(bind_workers("node", only({0, 1}), 1, {-1}).note, "");
  EXPECT_THAT(sets("node", 1, {-1}, only({0, 1})), ElementsAre("0-1"));
  EXPECT_THAT(bind_workers("node", two_sockets(), 1, {-1}).note,
              HasSubstr("are not known; 1 worker is"));
}

TEST(Numa, CpuListsAreReadAndWritten) {
  EXPECT_THAT(read_cpu_list("0-2,7,9-10\n"), ElementsAre(0, 1, 2, 7, 9, 10));
  EXPECT_THAT(read_cpu_list("5\n"), ElementsAre(5));
  EXPECT_TRUE(read_cpu_list("\n").empty());
  EXPECT_EQ(join_ranges({0, 1, 2, 7, 9, 10}), "0-2,7,9-10");
  EXPECT_EQ(join_ranges({}), "");
}

}  // namespace
}  // namespace ddp::launcher
