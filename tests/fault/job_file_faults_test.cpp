// A job file that is wrong is refused at once, before anything is read that need not be, and
// nothing starts. Rows Y1 to Y5 of CASES.md.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kTries = 5;  // the fastest counts

class JobFileFaults : public ProcessTest {
 protected:
  struct Refusal {
    std::string text;
    std::chrono::milliseconds fastest{1h};  // processor time: a loaded machine adds none
    std::size_t peak_kib = 0;
  };

  Refusal refuse(const std::string& path) {
    Refusal refusal;
    for (int i = 0; i < kTries; ++i) {
      const auto job = launch({path, std::string("launch.program=") + DDP_FAKE_WORKER});
      EXPECT_EQ(job->wait(), 2) << job->out();
      EXPECT_EQ(job->out(), "");
      refusal.text = job->err();
      refusal.fastest = std::min(refusal.fastest, job->busy());
      refusal.peak_kib = std::max(refusal.peak_kib, job->peak_kib());
    }
    if (!kInstrumented) {
      EXPECT_LT(refusal.fastest, 50ms);
    }
    return refusal;
  }

  /// What the launcher says of a file with this text.
  std::string answer_to(const std::string& text) {
    return refuse(write_file("job.yaml", text)).text;
  }
};

TEST_F(JobFileFaults, Y1_BadSyntaxIsShownWithItsPlace) {
  EXPECT_THAT(answer_to("data:\n\tname: digits\n"), HasSubstr("job.yaml:2:"));
  EXPECT_THAT(answer_to("data:\n  name: digits\n seed: 1\n"), HasSubstr("job.yaml:3:"));
  EXPECT_THAT(answer_to("seed: 1\nschedule: {milestones: [1, 2\nname: x\n"),
              AllOf(HasSubstr("job.yaml:2:24: this [ is not closed"),
                    HasSubstr("ddp-launch:     schedule: {milestones: [1, 2\n"),
                    HasSubstr("ddp-launch:                            ^\n")));
}

TEST_F(JobFileFaults, Y2_AMisspeltKeyIsNamedWithTheNearestOne) {
  EXPECT_THAT(answer_to("data: {batch_per_rank: 8}\ntrain:\n  epoch: 3\n"),
              HasSubstr("job.yaml:3:3: train.epoch: unknown key, did you mean \"train.epochs\"?"));
}

TEST_F(JobFileFaults, Y3_AValueOutOfItsRangeIsNamedWithTheRange) {
  for (const char* const bad : {"three", "3.7", "-1", "9223372036854775808", "1e400"}) {
    EXPECT_THAT(answer_to("data: {batch_per_rank: 8}\ntrain: {epochs: " + std::string(bad) + "}\n"),
                HasSubstr("job.yaml:2:17: train.epochs: " + std::string(bad) +
                          " is not a whole number from 1 to "));
  }
  for (const char* const bad : {".nan", ".inf", "1e400"}) {
    EXPECT_THAT(
        answer_to("data: {batch_per_rank: 8}\noptimizer: {lr: " + std::string(bad) + "}\n"),
        HasSubstr("job.yaml:2:17: optimizer.lr: " + std::string(bad) + " is not a number above 0"));
  }
}

TEST_F(JobFileFaults, Y4_TextThatOtherReadersGuessIsRefused) {
  const std::string good = "data: {batch_per_rank: 8}\n";
  EXPECT_THAT(answer_to(good + "seed: 1\nseed: 2\n"),
              HasSubstr("job.yaml:3:1: \"seed\" is given twice; the first is on line 2"));
  EXPECT_THAT(answer_to(good + "<<: {seed: 1}\n"), HasSubstr("merge keys"));
  EXPECT_THAT(answer_to(good + "---\nseed: 1\n"), HasSubstr("more than one document"));
  EXPECT_THAT(answer_to(good + "name: \xff\n"), HasSubstr("job.yaml:2:7: invalid UTF-8"));
  const std::string path = write_file("job.yaml",
                                      "\xEF\xBB\xBF"
                                      "data: {batch_per_rank: 8}\r\nseed: 2\r\n");
  const auto fine = launch({"--dry-run", path, std::string("launch.program=") + DDP_FAKE_WORKER});
  EXPECT_EQ(fine->wait(), 0) << fine->err();
}

TEST_F(JobFileFaults, Y5_BombsAndWhatIsNoSmallFileAreRefusedBeforeTheyAreRead) {
  const std::string good = write_file("good.yaml", "data: {batch_per_rank: 8}\n");
  const auto plan = launch({"--dry-run", good, std::string("launch.program=") + DDP_FAKE_WORKER});
  ASSERT_EQ(plan->wait(), 0) << plan->err();
  const auto path = [&](const std::string& name) { return (scratch() / name).string(); };

  std::ofstream(path("large.yaml")) << "seed: 1\n";
  std::filesystem::resize_file(path("large.yaml"), std::uintmax_t{2} << 30);  // sparse
  std::filesystem::create_symlink("/dev/zero", path("device.yaml"));
  ASSERT_EQ(::mkfifo(path("fifo.yaml").c_str(), 0600), 0);
  std::filesystem::create_directory(path("directory.yaml"));
  std::string aliases = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'j'; ++name) {
    aliases += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 9; ++i)
      aliases += (i == 0 ? "*" : ", *") + std::string(1, static_cast<char>(name - 1));
    aliases += "]\n";
  }
  std::ofstream(path("aliases.yaml")) << aliases;
  std::ofstream(path("itself.yaml")) << "a: &a [*a]\n";
  for (const std::string piece : {"[", "[]", "&a "}) {
    std::ofstream file(path("long" + std::to_string(piece.size()) + ".yaml"));
    for (int i = 0; i < 300000; ++i)
      file << piece;
  }
  std::string flows;
  for (int i = 0; i < 100000; ++i)
    flows += "[\n";
  std::ofstream(path("flows.yaml")) << flows;
  std::string maps;
  for (int i = 0; i < 600; ++i)
    maps += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  std::ofstream(path("maps.yaml")) << maps;
  std::string many = "a: [";
  for (int i = 0; i < 300000; ++i)
    many += "1,\n";
  std::ofstream(path("many.yaml")) << many << "1]\n";
  std::ofstream(path("top.yaml")) << many.substr(3) << "1]\n";
  // In flow form, and none of them a key.
  std::string unknown = "{";
  for (int i = 0; i < 600; ++i)
    unknown += "k" + std::to_string(i) + std::string(40, 'x') + ": 1,\n";
  std::ofstream(path("unknown.yaml")) << unknown << "}\n";

  const std::map<std::string, std::string> expected{
      {"large.yaml", "at most 1048576"},
      {"device.yaml", "not a regular file"},
      {"fifo.yaml", "not a regular file"},
      {"directory.yaml", "not a regular file"},
      {"aliases.yaml", "aliases"},
      {"itself.yaml", "aliases"},
      {"long1.yaml", "this line has more than 16384 bytes"},
      {"long2.yaml", "this line has more than 16384 bytes"},
      {"long3.yaml", "this line has more than 16384 bytes"},
      {"flows.yaml", "more than 10000 brackets and commas"},
      {"maps.yaml", "nested deeper than 32"},
      {"many.yaml", "more than 10000 brackets and commas"},
      {"top.yaml", "more than 10000 brackets and commas"},
      {"unknown.yaml", "and 580 more like these"},
  };
  for (const auto& [name, text] : expected) {
    const Refusal refusal = refuse(path(name));
    EXPECT_THAT(refusal.text, HasSubstr(text)) << name;
    if (!kInstrumented) {
      EXPECT_LT(refusal.peak_kib, plan->peak_kib() + 5 * 1024) << name;
    }
    std::cout << name << ": " << refusal.fastest.count() << " ms, " << refusal.peak_kib
              << " KiB; a good file " << plan->peak_kib() << " KiB" << std::endl;
  }
}

}  // namespace
}  // namespace ddp::test
