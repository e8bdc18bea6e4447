// Where CPUs lie, from an invented /sys.
#include "launcher/os/topology.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/scratch.h"

namespace ddp::launcher {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << "\n";
}

TEST(Topology, TopologyIsReadFromSys) {
  const Scratch scratch;
  const std::filesystem::path system = scratch.path();
  const int cpu = read_topology(system).front().cpu;  // one that we may use
  const std::string name = std::to_string(cpu);
  const std::string range = name + "-" + std::to_string(cpu + 7);
  const std::filesystem::path directory = system / ("cpu/cpu" + name);
  write(system / "node/online", "0-1");
  write(system / "node/node0/cpulist", "");
  write(system / "node/node1/cpulist", range);
  write(directory / "topology/physical_package_id", "3");
  write(directory / "topology/thread_siblings_list", name + "," + std::to_string(cpu + 64));
  write(directory / "cache/index0/type", "Data");
  write(directory / "cache/index0/level", "1");
  write(directory / "cache/index0/shared_cpu_list", name);
  write(directory / "cache/index1/type", "Instruction");
  write(directory / "cache/index1/level", "4");
  write(directory / "cache/index1/shared_cpu_list", "900");
  write(directory / "cache/index3/type", "Unified");
  write(directory / "cache/index3/level", "3");
  write(directory / "cache/index3/shared_cpu_list", "1000-1007");
  const CpuPlace place = read_topology(system).front();
  EXPECT_EQ(place.cpu, cpu);
  EXPECT_EQ(place.node, 1);
  EXPECT_EQ(place.package, 3);
  EXPECT_EQ(place.core, cpu);
  EXPECT_EQ(place.cache, 1000);
}

TEST(Topology, WithoutFilesTheCpusAreOneNode) {
  const Scratch scratch;
  for (const CpuPlace& place : read_topology(scratch.path())) {
    EXPECT_EQ(place.node, 0);
    EXPECT_EQ(place.package, 0);
    EXPECT_EQ(place.core, place.cpu);
    EXPECT_EQ(place.cache, -1);
  }
}

}  // namespace
}  // namespace ddp::launcher
