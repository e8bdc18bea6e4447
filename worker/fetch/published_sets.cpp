#include "worker/fetch/published_sets.h"

#include <string_view>

namespace ddp::worker {
namespace {

constexpr std::string_view kWeights = "weights/";

struct WeightFile {
  const char* model;
  const char* file;
  double mebibytes;
};

constexpr WeightFile kWeightFiles[] = {
    {"resnet18", "resnet18-f37072fd.pth", 44.661},
    {"resnet34", "resnet34-b627a593.pth", 83.275},
    {"resnet50", "resnet50-11ad3fa6.pth", 97.790},
    {"vit_b_16", "vit_b_16-c867db91.pth", 330.285},
    {"convnext_tiny", "convnext_tiny-983f1562.pth", 109.119},
    {"efficientnet_b0", "efficientnet_b0_rwightman-7f5810bc.pth", 20.451},
    {"swin_t", "swin_t-704ceda3.pth", 108.190},
    {"mobilenet_v3_small", "mobilenet_v3_small-047dcff4.pth", 9.829},
    {"regnet_y_400mf", "regnet_y_400mf-e6988f5f.pth", 16.806},
};

/// torchvision's weights. It publishes the size in MiB with three digits, and the first eight
/// digits of the SHA-256, in the name of the file. Source: torchvision 0.30,
/// get_model_weights(NAME).
PublishedSet weights(const std::string& model, const std::string& file, double mebibytes) {
  constexpr double kMebibyte = 1 << 20;
  const std::string stem = file.substr(0, file.rfind('.'));
  return {.name = std::string(kWeights) + model,
          .address = "https://download.pytorch.org/models/",
          .folder = "",
          .files = {{file,
                     static_cast<std::uint64_t>(mebibytes * kMebibyte),
                     stem.substr(stem.rfind('-') + 1),
                     static_cast<std::uint64_t>(kMebibyte / 1000)}},
          .archive = {},
          .extras = {},
          .is_weights = true};
}

std::vector<PublishedSet> make_sets() {
  std::vector<PublishedSet> sets{
      {.name = "mnist",
       // The first publisher's server no longer serves programs; this is PyTorch's copy.
       .address = "https://ossci-datasets.s3.amazonaws.com/mnist/",
       .folder = "MNIST/raw",
       .files = {{"train-images-idx3-ubyte.gz",
                  9912422,
                  "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
                 {"train-labels-idx1-ubyte.gz",
                  28881,
                  "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
                 {"t10k-images-idx3-ubyte.gz",
                  1648877,
                  "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
                 {"t10k-labels-idx1-ubyte.gz",
                  4542,
                  "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}},
       .archive = {},
       .extras = {}},
      {.name = "fashion-mnist",
       // Without TLS, as it is published. The digests decide what is accepted.
       .address = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
       .folder = "FashionMNIST/raw",
       .files = {{"train-images-idx3-ubyte.gz",
                  26421880,
                  "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
                 {"train-labels-idx1-ubyte.gz",
                  29515,
                  "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
                 {"t10k-images-idx3-ubyte.gz",
                  4422102,
                  "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
                 {"t10k-labels-idx1-ubyte.gz",
                  5148,
                  "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}},
       .archive = {},
       .extras = {}},
      {.name = "cifar10",
       .address = "https://www.cs.toronto.edu/~kriz/",
       .folder = "cifar-10-batches-bin",
       .files = {{"data_batch_1.bin",
                  30730000,
                  "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
                 {"data_batch_2.bin",
                  30730000,
                  "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
                 {"data_batch_3.bin",
                  30730000,
                  "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
                 {"data_batch_4.bin",
                  30730000,
                  "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
                 {"data_batch_5.bin",
                  30730000,
                  "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
                 {"test_batch.bin",
                  30730000,
                  "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
       .archive = PublishedFile{"cifar-10-binary.tar.gz",
                                170052171,
                                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
       .extras = {"batches.meta.txt"}},
      {.name = "cifar100",
       .address = "https://www.cs.toronto.edu/~kriz/",
       .folder = "cifar-100-binary",
       .files = {{"train.bin",
                  153700000,
                  "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"},
                 {"test.bin",
                  30740000,
                  "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"}},
       .archive = PublishedFile{"cifar-100-binary.tar.gz",
                                168513733,
                                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
       .extras = {"fine_label_names.txt", "coarse_label_names.txt"}},
  };
  for (const auto& [model, file, mebibytes] : kWeightFiles)
    sets.push_back(weights(model, file, mebibytes));
  return sets;
}

}  // namespace

bool PublishedFile::has_size(std::uint64_t bytes) const {
  return bytes + size_tolerance >= size && bytes <= size + size_tolerance;
}

const std::vector<PublishedSet>& published_sets() {
  static const std::vector<PublishedSet> sets = make_sets();
  return sets;
}

std::optional<std::string> weights_file_name(const std::string& model) {
  for (const PublishedSet& set : published_sets())
    if (set.is_weights && set.name == std::string(kWeights) + model) return set.files[0].name;
  return {};
}

std::vector<std::string> models_with_weights() {
  std::vector<std::string> models;
  for (const PublishedSet& set : published_sets())
    if (set.is_weights) models.push_back(set.name.substr(kWeights.size()));
  return models;
}

}  // namespace ddp::worker
