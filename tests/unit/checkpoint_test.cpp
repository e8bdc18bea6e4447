#include "worker/save/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <numeric>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// A checkpoint's worth of numbers that depend on the step.
struct SavedSample {
  explicit SavedSample(std::int64_t at_step, std::size_t size = 1000)
      : weights(size), momentum(size), step(at_step) {
    std::iota(weights.begin(), weights.end(), static_cast<float>(step));
    std::iota(momentum.begin(), momentum.end(), static_cast<float>(-step));
  }

  [[nodiscard]] CheckpointContent content() const {
    const auto size = static_cast<std::int64_t>(weights.size());
    return {.head = {.step = step,
                     .epoch = step / 100,
                     .step_in_epoch = step % 100,
                     .world_size = 2,
                     .batch = 128,
                     .job = {{"model.name", "convnet"}},
                     .best = 0.9875,
                     .torch_version = "2.11.0"},
            .model = {{"fc.weight", "F32", {size}, std::as_bytes(std::span(weights))}},
            .optimizer = {{"fc.weight", "F32", {size}, std::as_bytes(std::span(momentum))}},
            .state = {{"rng", "U8", {8}, std::as_bytes(std::span(&step, 1))}}};
  }

  std::vector<float> weights;
  std::vector<float> momentum;
  std::int64_t step;
};

void save(Checkpoints& checkpoints, std::int64_t step) {
  checkpoints.save(SavedSample(step).content());
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  return names;
}

/// Flips one bit, `from_end` bytes before the end of a file.
void damage(const fs::path& path, std::size_t from_end = 1) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(from_end), std::ios::end);
  const int byte = file.get();
  file.seekp(-static_cast<std::streamoff>(from_end), std::ios::end);
  file.put(static_cast<char>(byte ^ 4));
  ASSERT_TRUE(file.flush());
}

class CheckpointTest : public testing::Test {
 protected:
  Scratch scratch;
  fs::path directory = scratch.path() / "run" / "checkpoints";
  OwnedDir run = OwnedDir::require(scratch.path() / "run");
  Checkpoints checkpoints{run, 3, "run1"};
  std::vector<std::string> warnings;
};

TEST_F(CheckpointTest, SavedCheckpointLoadsUnchanged) {
  const SavedSample sample(600);
  EXPECT_EQ(checkpoints.save(sample.content()), directory / "step-000600");
  const std::optional<LoadedCheckpoint> loaded = checkpoints.load_newest(warnings);
  ASSERT_TRUE(loaded);
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ(loaded->head, sample.content().head);
  const auto bytes = std::as_bytes(std::span(sample.weights));
  const TensorView* const weights = loaded->model.find("fc.weight");
  ASSERT_NE(weights, nullptr);
  EXPECT_TRUE(std::equal(weights->bytes.begin(), weights->bytes.end(), bytes.begin(), bytes.end()));
  EXPECT_NE(loaded->state.find("rng"), nullptr);
  EXPECT_EQ(scratch.read("run/checkpoints/latest"), "step-000600\n");
  EXPECT_THAT(names_in(directory), UnorderedElementsAre("step-000600", "latest"));
  EXPECT_THAT(
      names_in(directory / "step-000600"),
      UnorderedElementsAre(
          "manifest.json", "model.safetensors", "optimizer.safetensors", "state.safetensors"));
}

// The file itself has wide elements first.
TEST_F(CheckpointTest, TheOrderOfItsTensorsIsKept) {
  const SavedSample sample(600);
  CheckpointContent content = sample.content();
  content.model.push_back({"bn.count", "I64", {1}, std::as_bytes(std::span(&sample.step, 1))});
  checkpoints.save(content);
  const std::optional<LoadedCheckpoint> loaded = checkpoints.load_newest(warnings);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->model.tensors()[0].name, "bn.count");
  EXPECT_THAT(loaded->model_names, ElementsAre("fc.weight", "bn.count"));
}

TEST_F(CheckpointTest, AmendChangesTheHeadAndKeepsTheFiles) {
  const SavedSample sample(600);
  checkpoints.save(sample.content());
  CheckpointHead head = sample.content().head;
  head.result = 0.5;
  head.amended_tensors = {{"watch", {3}}, {"schedule.plateau", {1, 0.1, 1e-300, 2}}};
  checkpoints.amend(head);
  const std::optional<LoadedCheckpoint> loaded = checkpoints.load_newest(warnings);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->head, head);
  EXPECT_NE(loaded->model.find("fc.weight"), nullptr);
  head.step = 700;
  checkpoints.amend(head);
  EXPECT_THAT(names_in(directory), UnorderedElementsAre("step-000600", "latest"))
      << "there is none of that step";
}

TEST_F(CheckpointTest, EachFileSaysWhatItHolds) {
  save(checkpoints, 5);
  const LoadedCheckpoint loaded = load_checkpoint(directory / "step-000005");
  EXPECT_EQ(loaded.model.metadata().at(kContentKey), kModelContent);
  EXPECT_EQ(loaded.optimizer.metadata().at(kContentKey), kOptimizerContent);
  EXPECT_EQ(loaded.state.metadata().at(kContentKey), kStateContent);
}

TEST_F(CheckpointTest, EmptyDirectoryHasNoNewestCheckpoint) {
  EXPECT_FALSE(checkpoints.load_newest(warnings));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(CheckpointTest, NewestIsByNumberNotByName) {
  save(checkpoints, 999999);
  save(checkpoints, 1000000);
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 1000000);
}

TEST_F(CheckpointTest, K3DamagedOneIsNamedPutAsideAndTheOlderOneTaken) {
  save(checkpoints, 600);
  save(checkpoints, 900);
  damage(directory / "step-000900" / "model.safetensors");
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 600);
  EXPECT_THAT(
      warnings,
      ElementsAre("checkpoint step-000900 is damaged (model.safetensors: checksum differs); "
                  "resuming from step-000600"));
  EXPECT_THAT(names_in(directory),
              UnorderedElementsAre("step-000600", "step-000900.bad", "latest"));

  // It may go wrong twice at the same step.
  save(checkpoints, 900);
  fs::remove(directory / "step-000900" / "state.safetensors");
  warnings.clear();
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 600);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("state.safetensors: No such file or directory")));
  EXPECT_TRUE(fs::exists(directory / "step-000900.bad2"));
}

TEST_F(CheckpointTest, K3EveryKindOfDamageIsSeen) {
  const fs::path path = directory / "step-000001";
  const std::map<std::string, std::string> whole = [&] {
    std::map<std::string, std::string> files;
    save(checkpoints, 1);
    for (const std::string& name : names_in(path))
      files[name] = scratch.read("run/checkpoints/step-000001/" + name);
    return files;
  }();
  for (const auto& [name, text] : whole) {
    const std::string cut = text.substr(0, text.size() - 1);
    const std::string zeros(text.size(), '\0');
    for (const std::string& bad : {cut, zeros, text + "x", std::string()}) {
      scratch.write("run/checkpoints/step-000001/" + name, bad);
      EXPECT_THROW(load_checkpoint(path), UsageError) << name << " " << bad.size();
    }
    for (const std::size_t place : {std::size_t{1}, text.size() / 2, text.size()}) {
      scratch.write("run/checkpoints/step-000001/" + name, text);
      damage(path / name, place);
      EXPECT_THROW(load_checkpoint(path), UsageError) << name << " " << place;
    }
    scratch.write("run/checkpoints/step-000001/" + name, text);
    EXPECT_NO_THROW(load_checkpoint(path));
  }
}

TEST_F(CheckpointTest, AllDamagedStartsFromTheBeginningAndSaysSo) {
  save(checkpoints, 1);
  save(checkpoints, 2);
  damage(directory / "step-000001" / "manifest.json");
  damage(directory / "step-000002" / "optimizer.safetensors");
  EXPECT_FALSE(checkpoints.load_newest(warnings));
  EXPECT_THAT(warnings,
              ElementsAre("checkpoint step-000002 is damaged (optimizer.safetensors: checksum "
                          "differs)",
                          "checkpoint step-000001 is damaged (manifest.json: checksum differs)"));
}

TEST_F(CheckpointTest, KeepsTheNewestAfterAResumeToo) {
  save(checkpoints, 1);
  save(checkpoints, 2);
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 2);
  for (const std::int64_t step : {3, 4, 5, 6, 7})
    save(checkpoints, step);
  // None has a result of its own, so none is the best.
  EXPECT_THAT(names_in(directory),
              UnorderedElementsAre("step-000005", "step-000006", "step-000007", "latest"));
}

CheckpointHead head(std::optional<double> result, std::optional<double> best) {
  CheckpointHead head;
  head.result = result;
  head.best = best;
  return head;
}

TEST(FindBest, TheManifestsTellWhichIsTheBest) {
  const auto best = [](const std::vector<CheckpointHead>& heads) { return find_best(heads); };
  EXPECT_EQ(best({}), std::nullopt);
  EXPECT_EQ(best({head({}, {}), head({}, 0.5)}), std::nullopt);
  EXPECT_EQ(best({head({}, 0.5), head(0.5, 0.5), head({}, 0.5)}), 1U);
  // Of equals the first; higher, and lower, is better.
  EXPECT_EQ(best({head(0.5, 0.5), head(0.7, 0.7), head(0.7, 0.7), head(0.6, 0.7)}), 1U);
  EXPECT_EQ(best({head(0.7, 0.7), head(0.5, 0.5), head(0.6, 0.5)}), 1U);
  EXPECT_EQ(best({head(0.7, 0.7), head(0.5, 0.5)}), 1U);
  EXPECT_EQ(best({head(0.5, 0.5), head(0.7, 0.7)}), 1U);
  // The best of all, 0.9 or 0.1, could not be saved: of those that are there the best.
  EXPECT_EQ(best({head(0.5, 0.5), head(0.7, 0.7), head(0.8, 0.9), head(0.6, 0.9)}), 2U);
  EXPECT_EQ(best({head(0.5, 0.5), head(0.4, 0.4), head(0.3, 0.1), head(0.6, 0.1)}), 2U);
}

TEST_F(CheckpointTest, TheBestIsKeptAndNamedAsTheManifestsTell) {
  const auto save_result = [&](std::int64_t step, double result, double best) {
    const SavedSample sample(step);
    CheckpointContent content = sample.content();
    content.head.result = result;
    content.head.best = best;
    checkpoints.save(content);
  };
  save_result(1, 0.5, 0.5);
  save_result(2, 0.7, 0.7);
  // Killed before anybody marked it; then the best of all is not saved, and better ones than the
  // rest are.
  for (const std::int64_t step : {4, 5, 6, 7})
    save_result(step, step == 4 ? 0.8 : 0.6, 0.9);
  checkpoints.mark_best();
  EXPECT_EQ(scratch.read("run/checkpoints/best"), "step-000004\n");
  EXPECT_THAT(names_in(directory),
              UnorderedElementsAre(
                  "step-000004", "step-000005", "step-000006", "step-000007", "latest", "best"));
  damage(directory / "step-000004" / "manifest.json");
  checkpoints.mark_best();
  EXPECT_EQ(scratch.read("run/checkpoints/best"), "step-000005\n");
}

TEST_F(CheckpointTest, OnesOfLaterStepsThatCannotBeReadPushNothingOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give files to another user";
  for (const std::int64_t step : {1, 7, 8, 9})
    save(checkpoints, step);
  EXPECT_THAT(names_in(directory),
              UnorderedElementsAre("step-000007", "step-000008", "step-000009", "latest"));
  save(checkpoints, 1);
  for (const char* const name : {"step-000007", "step-000008", "step-000009"})
    ASSERT_EQ(::chown((directory / name).c_str(), 65534, 65534), 0);
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 1);
  save(checkpoints, 2);
  EXPECT_THAT(
      names_in(directory),
      UnorderedElementsAre(
          "step-000001", "step-000002", "step-000007", "step-000008", "step-000009", "latest"));
}

TEST_F(CheckpointTest, NeverKeepsFewerThanTwo) {
  Checkpoints greedy(run, 0, "run1");
  for (const std::int64_t step : {1, 2, 3})
    save(greedy, step);
  EXPECT_THAT(names_in(directory), UnorderedElementsAre("step-000002", "step-000003", "latest"));
}

TEST_F(CheckpointTest, TheSameStepIsReplaced) {
  save(checkpoints, 5);
  const SavedSample sample(5);  // owns the bytes
  CheckpointContent other = sample.content();
  other.head.epoch = 77;
  checkpoints.save(other);
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.epoch, 77);
  EXPECT_THAT(names_in(directory), UnorderedElementsAre("step-000005", "latest"));
}

TEST_F(CheckpointTest, NextSaveRemovesTemporaryFilesOfADeadRun) {
  save(checkpoints, 5);
  fs::create_directory(directory / "step-000009.tmp-dead");
  scratch.write("run/checkpoints/step-000009.tmp-dead/model.safetensors", "half");
  scratch.write("run/checkpoints/latest.tmp-123", "step-");
  scratch.write("run/checkpoints/notes.txt", "the user's own");
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 5);
  EXPECT_THAT(warnings, IsEmpty());
  save(checkpoints, 6);
  EXPECT_THAT(names_in(directory),
              UnorderedElementsAre("step-000005", "step-000006", "latest", "notes.txt"));
}

TEST_F(CheckpointTest, K4FullDiskLeavesTheOldOneAndNothingHalfWritten) {
  save(checkpoints, 5);
  // A limit on the size of a file stands in for the full disk: write(2) fails in the middle.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{.rlim_cur = 10'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const SavedSample large(6, 100'000);
  std::string message = "saved";
  try {
    checkpoints.save(large.content());
  } catch (const SystemError& error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(message, AllOf(HasSubstr("model.safetensors"), HasSubstr("File too large")));
  EXPECT_THAT(names_in(directory), UnorderedElementsAre("step-000005", "latest"));
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 5);
  checkpoints.save(large.content());  // there is room again
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 6);
}

TEST_F(CheckpointTest, A1_CheckpointOfAnotherUserNeedsTrust) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give files to another user";
  save(checkpoints, 5);
  const fs::path path = directory / "step-000005";
  const auto problem = [&] {
    try {
      load_checkpoint(path);
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  for (const fs::path& his : {path, path / "manifest.json", path / "optimizer.safetensors"}) {
    ASSERT_EQ(::chown(his.c_str(), 65534, 65534), 0);
    EXPECT_THAT(problem(),
                AllOf(HasSubstr("it belongs to user 65534, not to you (user 0)"),
                      HasSubstr("--trust-checkpoint")));
    EXPECT_EQ(load_checkpoint(path, /*trust=*/true).head.step, 5);
    ASSERT_EQ(::chown(his.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(problem(), "");
  // Of a run they are ours, or not taken.
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  try {
    (void)checkpoints.load_newest(warnings);
    ADD_FAILURE() << "it would begin again, in the place of that one";
  } catch (const SystemError& refused) {
    EXPECT_THAT(refused.what(),
                AllOf(HasSubstr("step-000005 cannot be read (it belongs to user"),
                      HasSubstr("or begin again in another directory")));
  }
  // An older one that is ours is taken.
  save(checkpoints, 4);
  EXPECT_EQ(checkpoints.load_newest(warnings)->head.step, 4);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("step-000005 cannot be read (it belongs to user")));
}

TEST_F(CheckpointTest, A1_LinksAreNotWrittenThrough) {
  scratch.write("private", "mine");
  save(checkpoints, 5);
  for (const char* const name : {"latest", "best"}) {
    fs::remove(directory / name);
    fs::create_symlink(scratch.path() / "private", directory / name);
  }
  const SavedSample sample(5);
  CheckpointContent evaluated = sample.content();
  evaluated.head.result = evaluated.head.best;
  checkpoints.save(evaluated);
  fs::remove(directory / "latest");
  fs::create_symlink(scratch.path() / "private", directory / "latest");
  checkpoints.mark_best();
  EXPECT_EQ(scratch.read("run/checkpoints/best"), "step-000005\n");
  fs::create_directory_symlink(scratch.path(), directory / "step-000006.tmp-run1");
  save(checkpoints, 6);
  EXPECT_EQ(scratch.read("private"), "mine");
  EXPECT_EQ(scratch.read("run/checkpoints/latest"), "step-000006\n");
}

TEST_F(CheckpointTest, ExplicitPathThatIsWrongSaysWhy) {
  save(checkpoints, 5);
  EXPECT_EQ(load_checkpoint(directory / "step-000005").head.step, 5);
  try {
    load_checkpoint(directory / "step-000006");
    FAIL() << "loaded";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cannot load checkpoint"),
                      HasSubstr("step-000006: it is not a directory"),
                      HasSubstr("Name another one.")));
  }
}

}  // namespace
}  // namespace ddp::worker
