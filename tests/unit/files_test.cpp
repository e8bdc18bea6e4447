#include "common/files/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace ddp {
namespace {

std::string counting_text(std::size_t size) {
  std::string text;
  for (int i = 0; text.size() < size; ++i)
    text += std::to_string(i) + " ";
  return text.substr(0, size);
}

std::filesystem::path path_of_test() {
  return std::filesystem::temp_directory_path() / ("ddp-files-test-" + std::to_string(::getpid()));
}

TEST(Files, AReplacedFileIsReadBackWholeOrToItsLimit) {
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 8192, 65536, 100'000}) {
    const std::string text = counting_text(size);
    replace_file(path_of_test(), text);
    for (const std::size_t limit : {0, 1, 4096, 65536, 1 << 20})
      EXPECT_EQ(read_file(path_of_test(), limit), text.substr(0, limit)) << size << ", " << limit;
  }
  std::filesystem::remove(path_of_test());
}

// They are empty by their size, and some are longer than what is read at first.
TEST(Files, FilesOfTheKernelAreReadToTheirEnd) {
  struct stat status {};
  ASSERT_EQ(::stat("/proc/self/smaps", &status), 0);
  EXPECT_EQ(status.st_size, 0);
  const std::string text = read_file("/proc/self/smaps").value_or("");
  EXPECT_GT(text.size(), 8192u);
  EXPECT_EQ(text.substr(text.size() - 1), "\n");
  EXPECT_NE(text.find("[stack]"), std::string::npos);
}

TEST(Files, AnythingButARegularFileReadsAsNothing) {
  EXPECT_FALSE(read_file("/dev/zero"));
  EXPECT_FALSE(read_file("/proc/self"));
  EXPECT_FALSE(read_file(path_of_test()));
}

}  // namespace
}  // namespace ddp
