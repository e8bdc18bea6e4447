#include "worker/save/checkpoint/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "common/error.h"
#include "tests/unit/scratch.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/save/checkpoint/tensor_copy.h"

namespace ddp::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Weights : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file_of(const std::vector<NamedTensor>& tensors) {
    const std::filesystem::path path =
        scratch_.path() / (std::to_string(++files_) + ".safetensors");
    write_safetensors(path, view(tensors));
    return path.string();
  }

  [[nodiscard]] std::string complaint_about(const std::string& file, bool strict) {
    try {
      load_weights(file, state_, strict);
    } catch (const UsageError& error) {
      return error.what();
    }
    return {};
  }

  Scratch scratch_;
  int files_ = 0;
  std::vector<NamedTensor> state_{{"conv.weight", torch::zeros({4, 2, 3, 3})},
                                  {"fc.weight", torch::zeros({2, 6})},
                                  {"bn.num_batches_tracked", torch::tensor(0, torch::kLong)}};
  const at::Tensor conv_ = torch::randn({4, 2, 3, 3});
  const at::Tensor fc_ = torch::randn({2, 6});
  const at::Tensor tracked_ = torch::tensor(7, torch::kLong);
};

TEST_F(Weights, OtherFilesOfACheckpointAreNoWeights) {
  // SGD's momentum has the names and shapes of the weights.
  const std::vector<NamedTensor> tensors{{"conv.weight", conv_}, {"fc.weight", fc_}};
  const auto file_with = [&](const std::map<std::string, std::string>& metadata) {
    const std::filesystem::path path =
        scratch_.path() / (std::to_string(++files_) + ".safetensors");
    write_safetensors(path, view(tensors), metadata);
    return path.string();
  };
  for (const std::string_view content : {kOptimizerContent, kStateContent}) {
    EXPECT_THAT(complaint_about(file_with({{kContentKey, std::string(content)}}), true),
                AllOf(HasSubstr("it holds the " + std::string(content) + " of a checkpoint"),
                      HasSubstr("Give the model.safetensors")));
  }
  EXPECT_FALSE(state_[0].tensor.equal(conv_));
  for (const auto& metadata : {std::map<std::string, std::string>{{"format", "pt"}},
                               {{kContentKey, std::string(kModelContent)}}}) {
    EXPECT_EQ(complaint_about(file_with(metadata), true), "");
    EXPECT_TRUE(state_[0].tensor.equal(conv_));
    state_[0].tensor.zero_();
  }
}

TEST_F(Weights, AFileThatFitsIsCopiedIntoAnyLayout) {
  state_[0].tensor = state_[0].tensor.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const LoadReport report = load_weights(
      file_of({{"conv.weight", conv_}, {"fc.weight", fc_}, {"bn.num_batches_tracked", tracked_}}),
      state_,
      true);
  EXPECT_TRUE(state_[0].tensor.equal(conv_));
  EXPECT_TRUE(state_[0].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(state_[1].tensor.equal(fc_));
  EXPECT_EQ(state_[2].tensor.item<std::int64_t>(), 7);
  EXPECT_EQ(report.loaded, 3u);
  EXPECT_EQ(to_text(report),
            "weights: loaded 3 of the model's 3 tensors from " + report.file + "\n");
}

TEST_F(Weights, PrefixesOfWrappersAreTakenOffAndSaid) {
  const LoadReport report = load_weights(
      file_of({{"_orig_mod.module.conv.weight", conv_}, {"module.fc.weight", fc_}}), state_, true);
  EXPECT_TRUE(state_[0].tensor.equal(conv_));
  EXPECT_THAT(report.prefixes, ElementsAre("_orig_mod.", "module."));
  EXPECT_THAT(to_text(report), HasSubstr("prefix taken off: _orig_mod., module."));
  const LoadReport held = load_weights(
      file_of({{"model.conv.weight", conv_}, {"module.net.fc.weight", fc_}}), state_, true);
  EXPECT_THAT(held.prefixes, ElementsAre("model.", "module.", "net."));
  EXPECT_THAT(complaint_about(file_of({{"conv.weight", conv_}, {"net.other", fc_}}), true),
              HasSubstr("not in the model: net.other"));
  EXPECT_THAT(complaint_about(file_of({{"fc.weight", fc_}, {"module.fc.weight", fc_}}), false),
              HasSubstr("\"module.fc.weight\" is there twice"));
}

TEST_F(Weights, APrefixThatIsTheModelsOwnStays) {
  state_[1].name = "module.fc.weight";
  load_weights(file_of({{"conv.weight", conv_}, {"module.fc.weight", fc_}}), state_, true);
  EXPECT_TRUE(state_[1].tensor.equal(fc_));
}

TEST_F(Weights, OtherWidthsOfRealNumbersAreConverted) {
  const LoadReport report = load_weights(
      file_of({{"conv.weight", conv_.to(torch::kBFloat16)}, {"fc.weight", fc_.to(torch::kDouble)}}),
      state_,
      true);
  EXPECT_TRUE(state_[0].tensor.equal(conv_.to(torch::kBFloat16).to(torch::kFloat)));
  EXPECT_TRUE(state_[1].tensor.equal(fc_));
  EXPECT_THAT(report.conversions, ElementsAre("BF16 to F32", "F64 to F32"));
}

TEST_F(Weights, StrictNamesAllThatDoesNotFitAndCopiesNothing) {
  const std::string complaint = complaint_about(
      file_of({{"conv.weight", conv_}, {"fc.weight", torch::ones({3, 6})}, {"old", fc_}}), true);
  EXPECT_THAT(complaint,
              AllOf(HasSubstr("fc.weight: F32 [3, 6] in the file, F32 [2, 6] in the model"),
                    HasSubstr("not in the model: old"),
                    HasSubstr("set model.strict: false to load what fits, 1 of the model's 3")));
  EXPECT_THAT(complaint_about(file_of({{"old", fc_}}), true),
              AllOf(HasSubstr("nothing of it fits: 0 of the model's 3 tensors"),
                    Not(HasSubstr("model.strict"))));
  EXPECT_EQ(state_[0].tensor.abs().sum().item<float>(), 0);
  EXPECT_THAT(complaint_about(file_of({{"conv.weight", conv_}}), true),
              HasSubstr("it lacks fc.weight"));
  EXPECT_THAT(
      complaint_about(file_of({{"conv.weight", conv_}, {"fc.weight", fc_.to(torch::kInt)}}), true),
      HasSubstr("fc.weight: I32 [2, 6] in the file"));
}

TEST_F(Weights, PartlyLoadsWhatFitsAndListsTheRest) {
  const LoadReport report = load_weights(
      file_of({{"conv.weight", torch::ones({4, 18})}, {"fc.weight", fc_}, {"old", fc_}}),
      state_,
      false);
  EXPECT_TRUE(state_[1].tensor.equal(fc_));
  EXPECT_EQ(state_[0].tensor.abs().sum().item<float>(), 0);
  EXPECT_THAT(
      report.different,
      ElementsAre("conv.weight: F32 [4, 18] in the file, F32 [4, 2, 3, 3] in the model, the "
                  "same number of values"));
  EXPECT_THAT(report.unexpected, ElementsAre("old"));
  EXPECT_THAT(report.missing, IsEmpty()) << "a missing num_batches_tracked is 0, as in torch";
}

TEST_F(Weights, AFileOfAnotherModelIsRefusedEvenInPart) {
  EXPECT_THAT(complaint_about(file_of({{"transformer.h.0", fc_}}), false),
              AllOf(HasSubstr("no tensor of it fits the model"), HasSubstr("transformer.h.0")));
  EXPECT_THAT(complaint_about((scratch_.path() / "none").string(), false), HasSubstr("none"));
}

}  // namespace
}  // namespace ddp::worker
