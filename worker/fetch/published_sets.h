// The data sets and weights that `ddp-worker fetch` can download: where they are published, and
// what their files must be. A file is trusted because of its digest. For weights only the first
// eight digits of it are published, so trust in them also depends on the address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp::worker {

struct PublishedFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string sha256;      // 64 hexadecimal digits, or its first ones, if no more are published
  std::uint64_t size_tolerance =
      0;  // bytes that the size may be wrong by, if it was published rounded

  [[nodiscard]] bool has_size(std::uint64_t bytes) const;
};

struct PublishedSet {
  std::string name;     // as data.name says it
  std::string address;  // prefix of the files' addresses; ends with a slash
  std::string folder;   // torchvision's, below the directory that the user names: "MNIST/raw"
  std::vector<PublishedFile> files;      // what the folder holds in the end
  std::optional<PublishedFile> archive;  // the .tar.gz that contains them, as FOLDER/NAME
  std::vector<std::string> extras;       // small files, unpacked if the archive has them
  bool is_weights = false;               // one file, for model.weights
};

const std::vector<PublishedSet>& published_sets();

/// The name of the file of published weights: "resnet34-b627a593.pth" for "resnet34". None: there
/// are no such weights.
std::optional<std::string> weights_file_name(const std::string& model);

/// The models of which there are weights.
std::vector<std::string> models_with_weights();

}  // namespace ddp::worker
